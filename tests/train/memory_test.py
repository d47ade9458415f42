"""Workers and servers need the memory that the documentation says."""

import json
import unittest

from harness import Case


class Memory(Case):
    def test_every_case_needs_what_it_should(self):
        self.call("bench", "memory", "--size=16M", "--json=rows.json")
        with open(self.path("rows.json")) as file:
            rows = json.load(file)
        self.assertEqual({row["role"] for row in rows}, {"alone", "worker", "server"})
        alone = {row["optimizer"]: row["bytes"] for row in rows if row["role"] == "alone"}
        self.assertEqual(sorted(alone), ["adam", "momentum", "sgd"])
        sharded = {row["shard"]: row["bytes"] for row in rows if row["optimizer"] == "adam" and row["shard"]}
        self.assertGreater(sharded["none"], sharded["optimizer"])
        self.assertGreater(sharded["optimizer"], sharded["gradients"])
        self.assertGreater(sharded["gradients"], sharded["parameters"])
        for row in rows:
            with self.subTest(**row):
                # An allocator may keep a few layers that are free.
                self.assertLess(abs(row["bytes"] - row["expected_bytes"]),
                                0.4 * row["model_bytes"])
                if row["role"] == "worker":
                    more = 2.5 if row["merge"] == "easgd" else 1.5  # what it pushes, and the center
                    self.assertLess(row["bytes"], alone[row["optimizer"]] +
                                    more * row["model_bytes"])


if __name__ == "__main__":
    unittest.main()
