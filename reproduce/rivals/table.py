"""The table of rivals: what each is, what of it is certain, and what is tried with it.

A name that ends in "-style" says that equations were written down from memory or from what
others tell of the method, not from its paper.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from reproduce.rivals.ada_rank import AdaRank
from reproduce.rivals.ccrf import CCRF
from reproduce.rivals.frank import FRank
from reproduce.rivals.iso_rank import IsoRank
from reproduce.rivals.list_net import ListNet
from reproduce.rivals.qb_rank import QBRank
from reproduce.rivals.rank_boost import RankBoost
from reproduce.rivals.rank_svm import RankSVM
from reproduce.rivals.sort_net import SortNet
from reproduce.rivals.struct_rank import StructRank

_TREES = {"max_leaf_nodes": (8, 4, 16)}
_STUMPS = {"n_bins": (32, 8, 128)}


@dataclass(frozen=True)
class Listed:
    """A rival of the paper's Figure 2.

    Attributes
    ----------
    method : str
        Its name in rows and files.
    name : str
        Its name for readers.
    kind : type
        Its class.
    source : str
        Where it was published.
    certain : str
        What of it is certain.
    reading : str
        What is our reading of it, or chosen here.
    grid : mapping from option to sequence
        What is tried, the usual value first; all combinations are.
    fixed : mapping
        Options with one value.
    has_alpha : bool
        Whether it has a penalty, chosen from the alphas that RankMatch chooses from.
    has_rounds : bool
        Whether the number of its rounds is chosen too.
    needs_similarity : bool
        Whether it needs similarities of documents.
    is_on_all_three : bool
        Whether the paper has its results on all data sets of LETOR 2.0.
    version : int
        Raised whenever it would learn something else with the same options: results of
        before are then computed again.
    """

    method: str
    name: str
    kind: type[Any]
    source: str
    certain: str
    reading: str
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    has_alpha: bool = False
    has_rounds: bool = False
    needs_similarity: bool = False
    is_on_all_three: bool = True
    version: int = 1

    @property
    def is_style(self) -> bool:
        """Whether it is only in the style of what was published."""
        return self.name.endswith("-style")

    def settings(self, n_values: int | None = None) -> list[dict[str, Any]]:
        """Return all combinations of the first values of every option.

        Parameters
        ----------
        n_values : int, optional
            How many values of each are taken; default: all.
        """
        kept = [values[:n_values] for values in self.grid.values()]
        return [dict(zip(self.grid, chosen, strict=True)) for chosen in product(*kept)]


RIVALS = {
    listed.method: listed
    for listed in (
        Listed(
            "rankboost",
            "RankBoost",
            RankBoost,
            "Freund et al., JMLR 2003",
            "The exponential loss of pairs, stumps as weak rankers, and the weight of a "
            "stump from its r.",
            "Thresholds are quantiles of a feature, not all of its values, and a stump may "
            "have a negative weight. All pairs count alike.",
            grid=_STUMPS,
            has_rounds=True,
        ),
        Listed(
            "ranksvm",
            "RankSVM",
            RankSVM,
            "Herbrich et al. 2000; Joachims, KDD 2002",
            "The hinge loss of pairs with a quadratic penalty, linear, every pair counting "
            "alike; minimised to a certified gap of a thousandth.",
            "Nothing but the alphas tried.",
            has_alpha=True,
        ),
        Listed(
            "frank",
            "FRank-style",
            FRank,
            "Tsai et al., SIGIR 2007",
            "The fidelity loss of pairs, the pairs of a query sharing its weight, and "
            "boosting of stumps.",
            "The weight of a stump is written down from memory. The stump is the one where "
            "a step of boosting gains most with the present weights of pairs, where the "
            "paper looks for the smallest loss after the step. At most 150 rounds, because "
            "listing all pairs is slow.",
            grid=_STUMPS,
            fixed={"n_rounds": 150},
            has_rounds=True,
        ),
        Listed(
            "listnet",
            "ListNet",
            ListNet,
            "Cao et al., ICML 2007",
            "The cross-entropy of coming first, by the grades and by linear scores.",
            "The minimum with a quadratic penalty, by L-BFGS; the original stops gradient "
            "descent early.",
            has_alpha=True,
        ),
        Listed(
            "adarank_map",
            "AdaRank-MAP",
            AdaRank,
            "Xu and Li, SIGIR 2007",
            "Single features as weak rankers, the weights of queries and of features, MAP "
            "as the measure.",
            "Documents of any grade above 0 are relevant. Whether a feature may be taken "
            "twice is chosen; the same one may otherwise win for ever.",
            grid={"is_reusing": (False, True)},
            fixed={"measure": "MAP"},
            has_rounds=True,
        ),
        Listed(
            "adarank_ndcg",
            "AdaRank-NDCG",
            AdaRank,
            "Xu and Li, SIGIR 2007",
            "As AdaRank-MAP, with NDCG as the measure.",
            "NDCG is cut at 5 or 10, whichever validation prefers, and has the paper's "
            "discount.",
            grid={"is_reusing": (False, True), "measure": ("NDCG@10", "NDCG@5")},
            has_rounds=True,
        ),
        Listed(
            "qbrank",
            "QBRank-style",
            QBRank,
            "Zheng et al., NIPS 2007",
            "Squared hinge of pairs, and regression trees fitted by a quadratic upper "
            "bound of it.",
            "The bound has as much curvature for a document as it has pairs. Preferences "
            "only: grades as targets of regression are left out. The margin of a pair is "
            "the difference of its grades. One learning rate, 0.1, to save time; how many "
            "trees there are is chosen.",
            grid=_TREES,
            has_rounds=True,
        ),
        Listed(
            "isorank",
            "IsoRank-style",
            IsoRank,
            "Zheng, Zha and Sun, Allerton 2008",
            "Per query the smallest change of the scores that puts them in the order of "
            "the grades, by isotonic regression, and trees fitted to that change.",
            "Documents of equal grade need no order; the margin is one per grade. One "
            "learning rate, as for QBRank-style.",
            grid=_TREES,
            has_rounds=True,
        ),
        Listed(
            "sortnet",
            "SortNet-style",
            SortNet,
            "Rigutini et al. 2008, arXiv:2311.01864",
            "A comparator network with one hidden layer and weights shared between the two "
            "orders, squared error, and pairs added by sorting and looking for mistakes.",
            "The first pairs are random, each round takes 30 steps of L-BFGS, and the "
            "mistakes are those among the comparisons of a merge sort. Lists are ranked by "
            "mean preference, because the comparator need not be transitive. One seed, and "
            "few hidden units, to save time.",
            grid={"n_hidden": (10, 5), "decay": (1e-4, 1e-3)},
            has_rounds=True,
            is_on_all_three=False,
        ),
        Listed(
            "structrank",
            "StructRank-style",
            StructRank,
            "Huang and Frey, NIPS 2008; Liu 2011, section 4.3.3",
            "A product of multivariate logistic functions over score differences that "
            "share a document.",
            "One factor per document, over all it beats, and linear scores; the original "
            "has a scorer without parameters.",
            has_alpha=True,
            is_on_all_three=False,
        ),
        Listed(
            "ccrf",
            "C-CRF-style",
            CCRF,
            "Qin et al., NIPS 2008",
            "The Gaussian over the grades of a list, its mean as the score, and fitting by "
            "likelihood.",
            "L-BFGS on the logarithms of the parameters, where the original climbs the "
            "gradient. It needs similarities between the documents of a query.",
            needs_similarity=True,
            is_on_all_three=False,
        ),
    )
}
