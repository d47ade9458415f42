#!/usr/bin/env python3
"""Runs check_layers over small trees, sound and broken."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import check_layers


def problems(files):
    """The lines check_layers prints for a tree of {path: text}."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return check_layers.check(root)[0]


class CheckLayersTest(unittest.TestCase):
    def assert_one(self, files, start, *parts):
        lines = problems(files)
        self.assertEqual(len(lines), 1, lines)
        self.assertTrue(lines[0].startswith(start), lines[0])
        for part in parts:
            self.assertIn(part, lines[0])

    def test_a_sound_tree_has_no_problem(self):
        self.assertEqual(problems({
            "asup/base/error.h": "#include <string>\n",
            "asup/net/transport/link.h": '#include "asup/base/error.h"\n',
            "asup/net/transport/tcp/wire.h": '#include "asup/net/transport/link.h"\n',
            "asup/launch/run.cc": '#include "asup/net/transport/link.h"\n#include "asup/base/error.h"\n',
            "asup/sync/replica.cc": '#include <torch/torch.h>\n#include "asup/net/transport/link.h"\n',
            "asup/asup.h": '#include "asup/sync/replica.h"\n',
            "asup/cli/main.cc": "#include <asup/asup.h>\n",
        }), [])

    def test_an_include_down_the_house_is_named_with_file_and_line(self):
        self.assert_one({"asup/base/error.h": '#pragma once\n\n#include "asup/net/link.h"\n'},
                        "asup/base/error.h:3: ", "base may not include net")

    def test_the_umbrella_is_below_the_modules(self):
        self.assert_one({"asup/train/config.cc": "#include <asup/asup.h>\n"},
                        "asup/train/config.cc:1: ", "train may not include asup.h")

    def test_launch_includes_only_base_and_net(self):
        self.assert_one({"asup/launch/run.cc": '#include "asup/collective/plan.h"\n'},
                        "asup/launch/run.cc:1: ", "only base, net, launch")

    def test_the_core_knows_no_torch(self):
        for header in ["torch/torch.h", "ATen/ATen.h", "c10/util/Half.h"]:
            for folder in ["kernels", "collective", "ps", "launch"]:
                self.assert_one({f"asup/{folder}/a.cc": f"#include <{header}>\n"},
                                f"asup/{folder}/a.cc:1: ", "knows no torch", header)

    def test_sync_and_parallel_do_not_know_each_other(self):
        self.assert_one({"asup/parallel/grid.h": '#include "asup/sync/replica.h"\n'},
                        "asup/parallel/grid.h:1: ", "do not know each other")
        self.assert_one({"asup/sync/replica.h": '#include "asup/parallel/grid.h"\n'},
                        "asup/sync/replica.h:1: ", "sync may not include parallel")

    def test_an_unknown_folder_needs_a_place(self):
        self.assert_one({"asup/misc/a.h": "#include <string>\n"},
                        "asup/misc/a.h:1: ", "misc is no folder of the house")
        self.assert_one({"asup/net/a.h": '#include "asup/misc/a.h"\n'},
                        "asup/net/a.h:1: ", "in no folder of the house")

    def test_a_neighbour_is_included_by_its_whole_path(self):
        self.assert_one({"asup/net/link.h": "", "asup/net/mesh.h": '#include "link.h"\n'},
                        "asup/net/mesh.h:1: ", '#include "asup/net/link.h"')

    def test_a_circle_within_a_folder_is_found_once(self):
        self.assert_one({
            "asup/net/a.h": '#include "asup/net/b.h"\n',
            "asup/net/b.h": '#include "asup/net/c.h"\n',
            "asup/net/c.h": '#include "asup/net/a.h"\n',
            "asup/net/d.cc": '#include "asup/net/a.h"\n#include "asup/net/b.h"\n',
        }, "asup/net/a.h:1: ", "asup/net/a.h -> asup/net/b.h -> asup/net/c.h -> asup/net/a.h")

    def test_a_header_that_includes_itself_is_a_circle(self):
        self.assert_one({"asup/net/a.h": '\n#include "asup/net/a.h"\n'},
                        "asup/net/a.h:2: ", "circle")

    def test_rooms_of_a_folder_have_an_order(self):
        sound = {"asup/net/membership/key.h": "", "asup/net/transport/link.h":
                 '#include "asup/net/membership/key.h"\n', "asup/net/job.h":
                 '#include "asup/net/transport/link.h"\n'}
        self.assertEqual(problems(sound), [])
        self.assert_one({"asup/net/transport/link.h": "", "asup/net/membership/key.h":
                         '#include "asup/net/transport/link.h"\n'},
                        "asup/net/membership/key.h:1: ", "net/membership may not include net/transport")
        self.assert_one({"asup/net/membership/key.h": "", "asup/net/attic/a.h":
                         '#include "asup/net/membership/key.h"\n'},
                        "asup/net/attic/a.h:1: ", "net/attic has no place")

    def test_comments_do_not_count(self):
        self.assertEqual(problems({
            "asup/base/a.h": '/*\n#include "asup/net/link.h"\n*/\n// #include "asup/net/link.h"\n'
        }), [])

    def test_line_numbers_hold_after_a_block_comment(self):
        self.assert_one({"asup/base/a.h": '/* one\n two */\n#include "asup/net/link.h"\n'},
                        "asup/base/a.h:3: ")

    def test_the_program_exits_with_1_on_a_breach(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "asup/base/a.h"
            path.parent.mkdir(parents=True)
            for text, status in [("#include <string>\n", 0), ('#include "asup/net/a.h"\n', 1)]:
                path.write_text(text)
                run = subprocess.run([sys.executable, check_layers.__file__, folder],
                                     capture_output=True, check=False)
                self.assertEqual(run.returncode, status, run.stderr)


if __name__ == "__main__":
    unittest.main()
