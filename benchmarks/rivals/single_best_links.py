"""splink's ``cluster_using_single_best_links`` on a table of scored pairs.

Two records are linked if each is the best partner of the other, among those whose pair is
more likely than a threshold; then again among those left.
"""

import logging

import numpy as np


class SingleBestLinks:
    """Holds the pairs in splink's database, so that only its clustering is timed.

    Parameters
    ----------
    pairs : DataFrame
        As splink predicts them: see `ScoredPairs.frame`.
    """

    def __init__(self, pairs) -> None:
        import duckdb
        import pandas
        import splink.comparison_library as cl
        from splink import DuckDBAPI, Linker, SettingsCreator

        connection = duckdb.connect()
        # DuckDB 2.0 orders the joins such that the time grows with the square of the pairs.
        connection.execute("set disabled_optimizers = 'join_order'")
        database = DuckDBAPI(connection)
        tables = []
        for name, column in (("a", "unique_id_l"), ("b", "unique_id_r")):
            ids = pandas.unique(pairs[column])
            table = pandas.DataFrame({"unique_id": ids, "source_dataset": name, "x": "-"})
            tables.append(database.register(table, dataset_display_name=name))
        settings = SettingsCreator(link_type="link_only", comparisons=[cl.ExactMatch("x")])
        self._linker = Linker(tables, settings, log_level=logging.ERROR)
        predicted = database.register(pairs, dataset_display_name="pairs")
        self._pairs = self._linker.table_management.register_table_predict(predicted)

    def link(self, threshold: float) -> np.ndarray:
        """Return the pairs of ids that are linked, (n, 2)."""
        import pandas

        found = self._linker.clustering.cluster_using_single_best_links(
            self._pairs,
            duplicate_free_datasets=["a", "b"],
            threshold_match_probability=threshold,
        ).as_pandas_dataframe()
        left, right = (
            found[found["source_dataset"] == name].set_index("cluster_id")["unique_id"]
            for name in ("a", "b")
        )
        return pandas.concat([left, right], axis=1, join="inner").to_numpy()

    @staticmethod
    def is_linked(pairs, links: np.ndarray) -> np.ndarray:
        """Return which rows of the pairs are among the links."""
        import pandas

        found = pandas.MultiIndex.from_arrays(links.T)
        return pandas.MultiIndex.from_frame(pairs[["unique_id_l", "unique_id_r"]]).isin(
            found
        )
