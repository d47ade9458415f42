#!/usr/bin/env python3
"""Every command line of asup that a page shows can be given, and every flag that it names exists.

Command lines are read from code blocks and from code in the text; the program parses them all
(`asup --dry-run -`) and runs none. How pages write them:

  - In a block a line is a command line of a shell: with $ before it, a # comment behind it, a backslash
    at its end, sudo, variables, pipes and redirections. Another launcher, or asup run, may start it.
  - In the text, words of one command alone (`asup bench`) name it, and `asup run` need not say which
    program it starts.
  - N, S and other capitals are numbers; DIR, FILE and other words of capitals are names; … stands for
    more flags.
"""

import os
import re
import shlex
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "bench/README.md",
         *sorted((ROOT / "docs").glob("*.md"))]

# Flags of other programs that the text names by themselves.
FOREIGN = {"--mpi"}  # srun's

BENCHES = ["collective", "server", "memory", "images", "stragglers", "time-to-accuracy",
           "large-batch"]
OTHER_COMMANDS = [[], ["run"], ["report", "DIR"], ["eval", "DIR"],
                  ["export", "DIR"], ["plan"], ["plan", "pipeline"], ["tune"], *(["bench", name] for name in BENCHES)]

ENDS_COMMAND = {"|", "||", "&&", ";", "&", ">", ">>", "2>", "2>&1", "<"}
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9_-]*[a-z0-9]")


def shell_words(line):
    """The words of a shell's line without its comment; none where it is no such line."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
    lexer.commenters = "#"
    lexer.whitespace_split = True
    try:
        return list(lexer)
    except ValueError:
        return []


def filled_in(word):
    """A value for a placeholder, else the word."""
    if re.fullmatch(r"[A-Z]", word):
        return "2"
    return "x" if re.fullmatch(r"[A-Z]{2,}", word) else word


def command_lines(words):
    """The arguments of each asup that these words start, one inside the other."""
    for index, word in enumerate(words):
        if word != "asup" and not word.endswith("/asup"):
            continue
        rest = []
        for word in words[index + 1:]:
            if word in ENDS_COMMAND:
                break
            if word != "…":
                rest.append(filled_in(word))
        yield rest
        for flag, value in zip(rest, rest[1:]):  # of a benchmark: flags of the runs that it makes
            if flag == "--way":
                yield ["train", *value.partition("=")[2].split()]
            if flag == "--train":
                yield ["train", *value.split()]
        if "--" in rest:
            yield from command_lines(words[words.index("--", index) + 1:])
        return


def blocks_and_text(page):
    """(line number, code, whether it is a line of a block), and the text with blocks blanked out."""
    blocks, text, fence, language = [], [], None, ""
    for number, line in enumerate(page.splitlines(), 1):
        match = re.match(r"\s*```(\w*)", line)
        if match:
            fence, language = (None, "") if fence else (number, match.group(1))
            text.append("")
        elif fence or re.match(r"    +(?![-*|]|\d+\.)\S", line):
            if language in {"", "sh"}:
                blocks.append((number, line.strip()))
            text.append("")
        else:
            text.append(line)
    return blocks, "\n".join(text)


def continued(blocks):
    """Lines that end with a backslash become one with the next."""
    joined = []
    for number, line in blocks:
        if joined and joined[-1][1].endswith("\\"):
            joined[-1] = (joined[-1][0], joined[-1][1][:-1] + " " + line)
        else:
            joined.append((number, line))
    return joined


def spans_of(text):
    """(line number, code) for each piece of code in the text, which may go over a line's end."""
    for match in re.finditer(r"`([^`]+)`", text):
        yield text.count("\n", 0, match.start()) + 1, " ".join(match.group(1).split())


def names_only(line):
    return not any(word.startswith("-") for word in line)


def completed(line):
    """A command line of the text as a whole one."""
    with_program = line[:1] != ["run"] or "--" in line or names_only(line)
    return line if with_program else [*line, "--", "program"]


def lines_of(page):
    """(line number, arguments, whether they may be a mere name) of every command line of the page."""
    blocks, text = blocks_and_text(page)
    for number, line in continued(blocks):
        for words in command_lines(shell_words(re.sub(r"^\$ ", "", line))):
            yield number, words, False
    for number, code in spans_of(text):
        if re.match(r"(sudo |[A-Z_]+=\S* )*asup ", code):
            for words in command_lines(shell_words(code)):
                yield number, completed(words), names_only(words)


def flags_of(page):
    """(line number, flag) of every flag in the text."""
    for number, code in spans_of(blocks_and_text(page)[1]):
        for flag in FLAG.findall(code):
            yield number, flag


class Program:
    def __init__(self):
        self.path = os.environ["ASUP_PROGRAM"]
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith("ASUP_")}

    def parse(self, lines):
        """What the program says to command lines that it refuses, by index."""
        ended = subprocess.run([self.path, "--dry-run", "-"], text=True, capture_output=True,
                               input="".join("\t".join(line) + "\n" for line in lines),
                               env=self.environment, timeout=300)
        messages = {int(number) - 1: message for number, message
                    in re.findall(r"^line (\d+): (.*)", ended.stderr, re.MULTILINE)}
        if (ended.returncode != 0) != bool(messages):
            raise AssertionError(f"status {ended.returncode}\n{ended.stderr}")
        return messages

    def wrong_lines(self, lines):
        """Messages by index, of lines as lines_of() gives them."""
        messages = self.parse([words for _, words, _ in lines])
        return {index: message for index, message in messages.items()
                if not lines[index][2] or "unknown command" in message}

    def known(self, flags):
        """Those of the flags that some command has, whatever it says of their values."""
        known = set()
        for commands in ([["train"]], OTHER_COMMANDS):  # most are flags of asup train
            pairs = [(command, flag) for flag in flags - known for command in commands]
            messages = self.parse([[*command, flag] for command, flag in pairs])
            known |= {flag for index, (_, flag) in enumerate(pairs)
                      if "unknown flag" not in messages.get(index, "")}
        return known


class Pages(unittest.TestCase):
    def setUp(self):
        self.program = Program()

    def test_their_command_lines_can_be_given(self):
        lines = [(page, line) for page in PAGES for line in lines_of(page.read_text())]
        self.assertGreater(len(lines), 100)
        wrong = []
        for index, message in self.program.wrong_lines([line for _, line in lines]).items():
            page, (number, words, _) = lines[index]
            wrong.append(f"{page.relative_to(ROOT)}:{number}: asup {shlex.join(words)}\n    {message}")
        self.assertFalse(wrong, "\n" + "\n".join(wrong))

    def test_their_flags_exist(self):
        named = [(page, number, flag) for page in PAGES for number, flag in flags_of(page.read_text())]
        known = self.program.known({flag for _, _, flag in named}) | FOREIGN
        for script in [*(ROOT / "bench").glob("*.py"), *(ROOT / "tools").glob("*.py")]:
            known |= set(FLAG.findall(script.read_text()))
        wrong = [f"{page.relative_to(ROOT)}:{number}: {flag}" for page, number, flag in named
                 if flag not in known]
        self.assertFalse(wrong, "\n" + "\n".join(wrong))

    def test_the_loop_on_the_page_is_the_example(self):
        example = (ROOT / "examples/your_own_loop.cpp").read_text()
        blocks = re.findall(r"```cpp\n(.*?)```", (ROOT / "docs/your_own_loop.md").read_text(), re.DOTALL)
        self.assertGreater(len(blocks), 5)
        for block in blocks:
            self.assertIn(block, example)

    def test_what_is_wrong_is_found(self):
        page = ("Say `asup train --wrokers N`, `asup rnu`, `asup report`, and not `--no-such-flag`.\n"
                "```sh\n"
                "$ sudo asup run -n 2 --hots a -- ./program   # starts it\n"
                "ASUP_SYNC=local asup run \\\n"
                "  -n 2 -- asup train --sync gosip | tee log\n"
                "asup bench time-to-accuracy --way 'mine=--evry 4' > table\n"
                "asup train --pace ssp …\n"
                "```\n")
        lines = list(lines_of(page))
        self.assertEqual([number for number, _, _ in lines], [3, 4, 4, 6, 6, 7, 1, 1, 1])
        messages = self.program.wrong_lines(lines)
        expected = {0: "unknown flag --hots", 2: "'gosip' is none of", 4: "unknown flag --evry",
                    5: "pace = ssp has no effect", 6: "unknown flag --wrokers",
                    7: "unknown command 'rnu'"}
        self.assertEqual(set(messages), set(expected))
        for index, message in expected.items():
            self.assertIn(message, messages[index])
        named = {flag for _, flag in flags_of(page)}
        self.assertEqual(self.program.known(named | {"--every", "--hosts", "--help"}),
                         {"--every", "--hosts", "--help"})
        self.assertIn("--no-such-flag", named)


if __name__ == "__main__":
    sys.exit(unittest.main())
