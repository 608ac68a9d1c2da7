"""Two small bibliographies, in the layout of the real ones."""

import numpy as np

VENUES = (
    ("VLDB", "Very Large Data Bases"),
    ("SIGMOD Conference", "International Conference on Management of Data"),
)
WORDS = [
    "query",
    "index",
    "join",
    "tree",
    "graph",
    "stream",
    "cache",
    "view",
    "data",
    "mining",
    "web",
    "text",
    "schema",
    "cube",
    "object",
    "parallel",
    "spatial",
    "temporal",
    "active",
    "secure",
    "mobile",
    "adaptive",
    "optimal",
    "fast",
    "robust",
]
NAMES = [
    "Ames",
    "Bell",
    "Cole",
    "Dyer",
    "Eames",
    "Frost",
    "Gould",
    "Hurst",
    "Irwin",
    "Joyce",
    "Keane",
    "Lloyd",
]


def write_bibliographies(root, n_papers=70, seed=0):
    """Write papers, most of them in both, with words dropped, and return the folder."""
    rng = np.random.default_rng(seed)
    folder = root / "dblp_acm"
    folder.mkdir(parents=True)
    acm, dblp, links = [], [], []
    for k in range(n_papers):
        words = rng.choice(WORDS, 4, replace=False)
        authors = ", ".join(rng.choice(NAMES, 2, replace=False))
        short, long = VENUES[int(rng.integers(2))]
        year = int(rng.integers(1995, 2004))
        seen = words if rng.random() < 0.5 else words[:3]
        in_acm, in_dblp = rng.random(2) < 0.9
        if in_acm:
            acm.append(f"{k}%{' '.join(words)}%{authors}%{long}%{year}")
        if in_dblp:
            dblp.append(f"{1000 + k}%{' '.join(seen)}%{authors}%{short}%{year}")
        if in_acm and in_dblp:
            links.append(f"{1000 + k}%{k}")
    # A record without authors, damaged as some of the real ones are.
    acm.append('999%query data%"Very Large Data Bases%2000%%query data VLDB 2000"%%')
    header = "id%title%authors%venue%year"
    contents = {"acm": [header, *acm], "dblp": [header, *dblp], "gt": ["D1%D2", *links]}
    for name, lines in contents.items():
        text = "\n".join(lines) + "\n"
        (folder / f"{name}.csv").write_text(text, encoding="utf-8")
    return root
