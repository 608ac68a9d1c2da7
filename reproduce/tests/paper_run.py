"""``python -m reproduce all`` on small data, and what two runs of it must share.

Run as a program, it is the command with ``--quick`` made quicker still.
"""

import json
from html.parser import HTMLParser

from reproduce.experiments import (
    cmu_house,
    ohsumed,
    ohsumed_sample_size,
    rank_runtime,
    silhouette_sample_size,
)
from reproduce.tests.house_folder import write_house
from reproduce.tests.letor_folder import write_letor, write_published

MODULES = (
    cmu_house,
    ohsumed,
    ohsumed_sample_size,
    rank_runtime,
    silhouette_sample_size,
)

#: Elements that end without an end tag.
_VOID = {"meta", "link", "br", "hr", "img", "input"}


def write_data(root):
    """Write a small OHSUMED, what was published on it, and a small house."""
    return write_house(write_published(write_letor(root)))


def make_tiny(monkeypatch):
    """Make ``--quick`` quicker still, and forget where real data is."""
    monkeypatch.delenv("PERMATCH_DATA", raising=False)
    for module in MODULES:
        monkeypatch.setattr(module.Config, "quick", module.Config.tiny)


def shared_html(path):
    """Return a page without what was measured."""
    reader = _Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    assert reader.n_left_out > 3  # the marks are there
    return "".join(reader.kept)


def shared_json(path):
    """Return the numbers without what was measured."""
    content = json.loads(path.read_text(encoding="utf-8"))
    for found in content["experiments"]:
        if found["is_measured"]:
            for name in ("verdict", "reason", "effects", "summary"):
                del found[name]
    return _without_times(content)


def _without_times(value):
    if isinstance(value, list):
        return [_without_times(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _without_times(entry)
        for name, entry in value.items()
        if name != "date" and not name.endswith("seconds")
    }


class _Reader(HTMLParser):
    """Keeps all but elements that are marked as measured."""

    def __init__(self):
        super().__init__(convert_charrefs=False)
        self.kept, self.depth, self.n_left_out = [], 0, 0

    def handle_starttag(self, tag, attrs):
        marks = dict(attrs)
        is_marked = "data-measured" in marks or marks.get("class") == "measured"
        if self.depth or is_marked:
            self.n_left_out += self.depth == 0
            self.depth += tag not in _VOID
        else:
            self.kept.append(self.get_starttag_text())

    def handle_startendtag(self, tag, attrs):
        if not self.depth:
            self.kept.append(self.get_starttag_text())

    def handle_endtag(self, tag):
        if self.depth:
            self.depth -= 1
        else:
            self.kept.append(f"</{tag}>")

    def handle_data(self, data):
        if not self.depth:
            self.kept.append(data)

    def handle_entityref(self, name):
        self.handle_data(f"&{name};")

    def handle_charref(self, name):
        self.handle_data(f"&#{name};")


if __name__ == "__main__":
    from reproduce.app import app

    for module in MODULES:
        module.Config.quick = module.Config.tiny
    app()
