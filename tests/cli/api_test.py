#!/usr/bin/env python3
"""docs/api.md names all that asup.h offers to programs, and nothing that is not there.

How the page is written: `### `Job`` opens a type; the first cells of the tables below it have its members,
each as the header declares it. Tables before the first type of a section (`##`) have functions. Members
that override others, constructors and operators need no row.
"""

import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs/api.md"

# Headers of which programs need these names alone: asup.h includes them, or its headers build on them.
ALSO = {
    "asup/base/buffer.h": {"Buffer", "DeviceKind", "buffer_of"},
    "asup/base/clock.h": {"Seconds"},
    "asup/base/dtype.h": {"Dtype", "ReduceOp", "size_of", "name_of", "is_floating"},
    "asup/base/non_finite.h": {"NonFinite"},
    "asup/base/timeline.h": {"TimelineScope", "TimelineThread", "timeline_counter", "current_timeline"},
    "asup/base/timeline_event.h": {"Activity", "TimelineLabels"},
    "asup/collective/coding.h": {"Coding"},
    "asup/config/step_or_share.h": {"StepOrShare"},
    "asup/parallel/pipeline/executor.h": {"PipelineStats"},
    "asup/parallel/pipeline/layer.h": {"Layer", "layers_of"},
    "asup/parallel/pipeline/stage.h": {"LossOfMicroBatch"},
    "asup/parallel/schedule/cost.h": {"StageTimes"},
    "asup/precision/precision.h": {"Precision"},
    "asup/sync/averaging/local_replica.h": {"MergeState"},
    "asup/sync/averaging/timed_rounds.h": {"TimedRounds", "MergeDeadline"},
    "asup/sync/compressors/compressor.h": {"Compressor", "CompressorContext", "CompressorFactory"},
    "asup/sync/gradients/all_reduce_replica.h": {"BufferSync"},
    "asup/sync/averaging/exchange_dtype.h": {"ExchangeDtype"},
    "asup/sync/gradients/compress.h": {"Compress", "CompressSetting", "Feedback"},
    "asup/sync/model/unshared.h": {"Unshared"},
    "asup/sync/server/paces.h": {"Bsp", "Ssp", "Asp", "KAsync", "Adaptive", "Pace"},
    "asup/sync/server/server_replica.h": {"Merge", "ServerReplica"},
    "asup/sync/way.h": {"Capabilities", "Exchange"},
}
NAMESPACES = {"asup", "asup::optim", "asup::parallel"}

# How settings and the table of ways are made (docs/adding_a_setting.md, docs/adding_a_strategy.md).
NOT_FOR_PROGRAMS = {"kForm", "kWanted", "from_text", "to_text", "names_of", "way_of"}


def included(header):
    return re.findall(r'#include "(asup/[^"]+)"', header)


def without_comments(text):
    return re.sub(r"//[^\n]*|^#[^\n]*", "", text, flags=re.MULTILINE)


def without_texts(text):
    return re.sub(r'"(?:\\.|[^"\\])*"', '""', text)


def block_end(text, begin):
    """Behind the brace that closes the one at `begin`."""
    depth = 0
    for at in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return at + 1
    raise ValueError("braces do not match")


def without_templates(text):
    text = text.replace("->", "")
    while (shorter := re.sub(r"<[^<>]*>", "", text)) != text:
        text = shorter
    return text


def statements(text):
    """(head, block) of every declaration of a scope; block is None for one without braces of its own."""
    begin, at, round_depth = 0, 0, 0
    while at < len(text):
        character = text[at]
        round_depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "{" and round_depth == 0:
            end, head = block_end(text, at), text[begin:at].strip()
            if re.search(r"\b(namespace|class|struct|enum)\b", without_templates(head)) or \
                    ("(" in without_templates(head) and not re.search(r"\brequires\s*\([^()]*\)$", head)):
                yield head, text[at + 1:end - 1]
                begin = end
            at = end
            continue
        if character == ";" and round_depth == 0:
            if text[begin:at].strip():
                yield text[begin:at].strip(), None
            begin = at + 1
        at += 1


def names_declared(head):
    """By a declaration of a function, of variables or of an alias, or by one of torch's macros."""
    head = re.sub(r"\[\[.*?\]\]", "", without_templates(head))
    if re.match(r"(friend|using enum|class|struct|enum|template\s+(class|struct))\b", head):
        return []
    if match := re.match(r"TORCH_(?:ARG\([^()]*,\s*|MODULE\()(\w+)", head):
        return [match[1]]
    if match := re.match(r"using\s+(\w+)\s*=", head):
        return [match[1]]
    if "operator" in head or head.startswith("using"):
        return []
    if "(" in re.sub(r"=.*", "", head, flags=re.DOTALL):
        return re.findall(r"(~?\w+)\s*\(", re.sub(r"\brequires\b.*?\}\s*", "", head, flags=re.DOTALL))[:1]
    return [re.findall(r"\w+", re.sub(r"[={].*", "", part, flags=re.DOTALL))[-1] for part in
            re.sub(r"\{[^{}]*\}", "", head).split(",") if re.search(r"\w", re.sub(r"[={].*", "", part))]


def members_of(name, body, is_public):
    """{public member: whether the type itself declares it first}."""
    found = {}
    for head, block in statements(re.sub(r"\b(public|private|protected)\s*:", r"; \1__ ;", body)):
        if head.endswith("__"):
            is_public = head == "public__"
        elif is_public:
            kind = re.search(r"\b(class|struct|enum(?: class)?)\s+(\w+)", without_templates(head))
            for each in [kind[2]] if kind and block is not None else names_declared(head):
                is_first = not re.search(r"\boverride\b", head) and each.lstrip("~") != name
                found[each] = is_first or found.get(each, False)
    return found


def enumerators_of(body):
    return {re.match(r"\w+", part.strip())[0]: True for part in body.split(",") if part.strip()}


def declared(text, namespace=""):
    """{type: its members as members_of() has them} of the namespaces, with "" for functions."""
    found = {"": {}}
    for head, block in statements(text):
        head = re.sub(r"\[\[.*?\]\]\s*", "", head)
        if match := re.match(r"namespace ([\w:]+)$", head):
            for name, members in declared(block, f"{namespace}::{match[1]}".removeprefix("::")).items():
                found.setdefault(name, {}).update(members)
        elif namespace not in NAMESPACES:
            continue
        elif (match := re.search(r"\benum(?: class)?\s+(\w+)", head)) and block is not None:
            found[match[1]] = enumerators_of(block)
        elif (match := re.search(r"\b(class|struct)\s+(\w+)", without_templates(head))) and block is not None:
            found[match[2]] = members_of(match[2], block, match[1] == "struct")
        else:
            for name in names_declared(head):
                if re.match("TORCH_MODULE|using", head):
                    found[name] = {}
                else:
                    found[""][name] = True
    return found


def offered():
    """All that the page may name, as declared() has it, and the text of the headers."""
    headers = included((ROOT / "asup/asup.h").read_text())
    found, texts = {"": {}}, []
    for header in dict.fromkeys([*headers, *ALSO]):
        text = without_comments((ROOT / header).read_text())
        texts.append(text)
        wanted = ALSO.get(header)
        for name, members in declared(without_texts(text)).items():
            if not name:
                members = {each: True for each in members if wanted is None or each in wanted}
            if not name or wanted is None or name in wanted:
                found.setdefault(name, {}).update(members)
    return found, re.sub(r"\s+", " ", re.sub(r"\b(virtual|override)\b", "", "\n".join(texts)))


def name_in(signature):
    plain = without_templates(signature)
    if match := re.search(r"(~?\w+)\s*\(", plain):
        return match[1]
    return re.findall(r"\w+", re.sub(r"[={].*", "", plain))[-1]


def named(page):
    """{type: {member: [signatures]}} as the page has them, and its text."""
    found, current, prose = {"": {}}, "", []
    for line in page.splitlines():
        if match := re.match(r"#+ (.*)", line):
            types = re.findall(r"`(\w+)`", match[1]) if line.startswith("###") else []
            current = types[0] if types else ""
            found.setdefault(current, {})
        elif match := re.match(r"\| (`.*?)\s+\| (.*)", line):
            for signature in re.findall(r"`([^`]+)`", match[1]):
                found[current].setdefault(name_in(signature), []).append(signature)
            prose.append(match[2])
        else:
            prose.append(line)
    return found, "\n".join(prose)


class Api(unittest.TestCase):
    def setUp(self):
        self.offered, self.headers = offered()
        self.named, self.prose = named(PAGE.read_text())

    def test_all_that_is_offered_is_named(self):
        self.assertGreater(len(self.offered), 50)
        missing = [f"{kind}::{name}" if kind else name for kind, members in self.offered.items()
                   for name, is_first in members.items()
                   if is_first and name not in NOT_FOR_PROGRAMS and name not in self.named.get(kind, {})]
        self.assertFalse(missing, "docs/api.md does not name these")
        self.assertFalse(set(self.offered) - set(self.named), "docs/api.md has no heading for these")

    def test_nothing_else_is_named(self):
        self.assertFalse(set(self.named) - set(self.offered), "these types are not in the headers")
        wrong = [f"{kind}::{name}" for kind, members in self.named.items() for name in members
                 if name not in self.offered.get(kind, {})]
        self.assertFalse(wrong, "these members are not in the headers")

    def test_signatures_are_those_of_the_headers(self):
        wrong = [signature for members in self.named.values() for signatures in members.values()
                 for signature in signatures
                 if not re.search(rf"(?<!\w){re.escape(signature)}(?!\w)", self.headers)]
        self.assertFalse(wrong, "the headers declare them otherwise")

    def test_the_text_names_what_there_is(self):
        known = {*self.offered, *(name for members in self.offered.values() for name in members)}
        calls = set(re.findall(r"`(?:asup::)?(?:\w+::)?(\w+)\(\)`", self.prose))
        types = set(re.findall(r"`(?:asup::)?([A-Z]\w*[a-z]\w*)`", self.prose))
        self.assertGreater(len(calls), 5)
        self.assertFalse((calls | types) - known - {"backward"})

    def test_the_headers_are_understood(self):
        text = """
            namespace asup {
            class [[nodiscard]] Shown : public Base<int, Other> {
             public:
              Shown() = default;
              explicit Shown(int a) : a_(a), b_{a} {}
              template <typename T> requires requires(const T& t) { f(t); }
              Shown(T t) : a_(t) {}
              enum class Kind { one };
              int get(std::vector<int> of = {}) const { return a_ < 0 ? 1 : 2; }
              void over() override;
              std::function<void(int x)> call;
              Seconds first{0}, second{0};
              bool operator==(const Shown&) const = default;
             private:
              int a_;
            };
            enum class Colour : char { red, green = 3 };
            struct Options { TORCH_ARG(double, lr) = 0.1; };
            template <typename... Args> void run(bool a, Args&&... args) { if (a) g(); }
            namespace inner { void hidden(); }
            }
        """
        self.assertEqual(declared(text), {
            "": {"run": True},
            "Shown": {"Shown": False, "Kind": True, "get": True, "over": False, "call": True, "first": True,
                      "second": True},
            "Colour": {"red": True, "green": True},
            "Options": {"lr": True},
        })


if __name__ == "__main__":
    sys.exit(unittest.main())
