#!/usr/bin/env python3
"""Tests of use_lines.py, on headers of a few lines: use_lines_test.py [COMPILER]"""

import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # else __pycache__ appears beside the sources
import use_lines

COMPILER = sys.argv.pop(1) if len(sys.argv) > 1 else "g++"
CODE = "\n\nnamespace lib {\ninline int twice(int n) { return 2 * n; }\n}\n"


class UseLines(unittest.TestCase):
    def problems(self, comment):
        """What is said of a header that begins with this comment."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "names.h").write_text("#pragma once\nnamespace user {\nextern int given;\n}\n")
            (root / "twice.h").write_text("#pragma once\n" + comment + CODE)
            return use_lines.problems(COMPILER, root, ["twice.h"], "names.h", root / "twice.cpp")

    def test_what_compiles_is_good(self):
        self.assertEqual(self.problems("// twice. Use: int n = lib::twice(given);"), "")

    def test_an_unknown_name_is_an_error_in_its_line(self):
        self.assertIn("twice.h:3:", self.problems("// twice: a product. Use: int n =\n// lib::thrice(given);"))

    def test_prose_is_an_error(self):
        self.assertIn("twice.h:2:", self.problems("// Use: lib::twice(2) is 4."))

    def test_a_missing_line_is_an_error(self):
        self.assertEqual(self.problems("// twice: a product."), "use_lines: twice.h has no Use: line\n")

    def test_a_use_line_behind_the_first_comment_does_not_count(self):
        self.assertIn("no Use: line", self.problems("// twice.\n\n#include <string>\n// Use: lib::twice(given);"))

    def test_it_ends_at_a_blank_line(self):
        self.assertEqual(self.problems("// Use: lib::twice(given);\n//\n// A product."), "")

    def test_it_ends_at_the_next_part(self):
        self.assertEqual(self.problems("// Use: lib::twice(given); Source: Euclid.\n// More of it."), "")

    def test_it_ends_with_the_comment(self):
        self.assertEqual(self.problems("/* twice.\n *\n * Use:\n *   lib::twice(given);\n */"), "")

    def test_dots_stand_for_statements(self):
        self.assertEqual(self.problems("// Use: ... if (lib::twice(given) > 2) ... lib::twice(3); ..."), "")

    def test_dots_are_no_arguments(self):
        self.assertIn("twice.h:2:", self.problems("// Use: lib::twice(...);"))


if __name__ == "__main__":
    unittest.main()
