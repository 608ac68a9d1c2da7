"""The rankers that the paper compares with, each in a file of its own.

All keep the contract of `permatch.estimators.BaseRanker`: ``fit(X, y, qid)``, `predict`,
`rank` and `score`, features scaled within queries.  Besides, `staged_predict` yields the
scores after every round of learning, and `keep` forgets the later rounds.
"""

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
from reproduce.rivals.table import RIVALS, Listed

__all__ = [
    "CCRF",
    "RIVALS",
    "AdaRank",
    "FRank",
    "IsoRank",
    "ListNet",
    "Listed",
    "QBRank",
    "RankBoost",
    "RankSVM",
    "SortNet",
    "StructRank",
]
