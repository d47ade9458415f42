"""Text end to end: language models learn it, in every way of training; what they leave can be tested, resumed and
begun with; and input that is wrong is refused in a sentence."""

import collections
import json
import math
import os
import random
import unittest

from harness import Case, Run

SENTENCEPIECE = os.environ.get("HAS_SENTENCEPIECE", "ON") == "ON"

GPT = ["--model=gpt", "--width=32", "--depth=1", "--heads=2", "--context=24", "--batch=16", "--optimizer=adamw",
       "--lr=0.01", "--threads=1", "--log-every=1", "--seed=5", "--eval-every=never"]


def story(lines):
    """Sentences of a small grammar, the same each time."""
    draw = random.Random(1)
    who = ["the cat", "a dog", "my friend Zoë", "every bird"]
    does = ["sees", "hears", "remembers", "forgets"]
    what = ["the sea", "an old song", "its name", "nothing at all"]
    return "".join(f"{draw.choice(who)} {draw.choice(does)} {draw.choice(what)}.\n" for _ in range(lines))


def unigram_entropy(text):
    """Nats of a byte, for who knows how often each comes and nothing else."""
    counts = collections.Counter(text.encode())
    total = sum(counts.values())
    return -sum(n / total * math.log(n / total) for n in counts.values())


class TextCase(Case):
    def setUp(self):
        super().setUp()
        self.text = story(600)
        self.book = self.write("book.txt", self.text)

    def write(self, name, content):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        return path

    def fit(self, name, *flags, status=0):
        self.call("train", *GPT, f"--data=text:{self.book}", *flags, f"--out={self.path(name)}", status=status)
        return Run(self.path(name))

    def marks(self, *flags):
        """What `asup eval` finds."""
        self.call("eval", *flags, f"--json={self.path('marks')}")
        with open(self.path("marks")) as file:
            return json.load(file)


class Learning(TextCase):
    def test_beats_the_frequencies_of_letters(self):
        run = self.fit("run", "--workers=2", "--steps=120", "--eval-every=60", "--weight-decay=0.1", "--dropout=0.1")
        summary, tests = run.summary, [row for row in run.rows if "test_loss" in row]
        self.assertEqual(len(tests), 2)
        self.assertLess(summary["test_loss"], 0.8 * unigram_entropy(self.text))
        self.assertAlmostEqual(summary["test_perplexity"], math.exp(summary["test_loss"]), places=6)
        self.assertAlmostEqual(summary["test_bits_per_byte"], summary["test_loss"] / math.log(2), places=6)
        self.assertEqual(tests[-1]["test_perplexity"], summary["test_perplexity"])
        self.assertEqual(summary["tokens_per_sample"], 24)

        with open(run.path("generated.json")) as file:
            generated = json.load(file)
        self.assertEqual((generated["temperature"], generated["top_k"]), (0.8, 40))
        for sample in generated["samples"]:
            self.assertIn(sample["prompt"], self.text)
            self.assertGreater(len(sample["text"]), 100)
        with open(run.path("report.html")) as file:
            self.assertIn(json.dumps(generated["samples"][0]["prompt"], ensure_ascii=False)[1:-1], file.read())

        self.assertIn("test perplexity", self.call("eval", run.folder).stdout)
        self.assertAlmostEqual(self.marks(run.folder)["test_perplexity"], summary["test_perplexity"], places=4)
        other = self.write("other.txt", "zzz qqq xxx\n" * 200)
        self.assertGreater(self.marks(run.folder, f"--data=text:{other}")["test_perplexity"],
                           2 * summary["test_perplexity"])
        self.assertIn("tokens/s", self.call("report", run.folder, run.folder).stdout)

    def test_is_the_same_for_any_number_of_workers(self):
        for model in ["--model=gpt"], ["--model=lstm", "--heads=auto"]:
            one = self.fit("one", *model, "--workers=1", "--steps=12", "--weight-decay=0.1")
            two = self.fit("two", *model, "--workers=2", "--steps=12", "--weight-decay=0.1")
            again = self.fit("again", *model, "--workers=2", "--steps=12", "--weight-decay=0.1")
            self.assertEqual(two.sha, again.sha)
            self.assertEqual(two.losses, again.losses)
            self.assertLess(two.losses[-1], two.losses[0] - 0.3)
            for a, b in zip(one.losses, two.losses):
                self.assertAlmostEqual(a, b, delta=2e-4 * a)
            with open(two.path("generated.json")) as a, open(again.path("generated.json")) as b:
                self.assertEqual(a.read(), b.read())

    def test_goes_on_as_if_it_had_not_stopped(self):
        flags = ["--workers=2", "--weight-decay=0.1", "--dropout=0.1", "--epochs=2", "--checkpoint-every=never"]
        whole = self.fit("whole", *flags)
        parts = self.fit("parts", *flags, "--stop-at=30")
        self.assertFalse(os.path.exists(parts.path("generated.json")))  # it writes at its end
        with open(parts.path("report.html")) as file:
            self.assertNotIn('"generated":', file.read())
        self.call("train", f"--resume={self.path('parts')}", "--stop-at=end")
        self.assertEqual(Run(self.path("parts")).sha, whole.sha)
        with open(whole.path("generated.json")) as a, open(parts.path("generated.json")) as b:
            self.assertEqual(a.read(), b.read())

    def test_every_way_of_training(self):
        for way in "local", "diloco", "slowmo", "gossip", "adpsgd", "server", "asup":
            with self.subTest(way=way):
                run = self.fit(way, f"--sync={way}", "--workers=2", "--steps=120", "--lr=0.003")
                self.assertTrue(run.summary["finished"])
                self.assertLess(run.summary["test_loss"], unigram_entropy(self.text))

    def test_goes_on_with_other_text_from_weights(self):
        first = self.fit("first", "--workers=2", "--steps=60")
        second = self.fit("second", "--workers=2", "--steps=5", f"--init={first.folder}")
        self.assertLess(second.losses[0], first.losses[0] - 1)

    def test_auto_stands_for_a_number_of_heads(self):
        auto = self.fit("auto", "--heads=auto", "--workers=1", "--steps=1")
        self.fit("same", "--heads=1", "--workers=1", "--steps=1", f"--init={auto.folder}")
        self.assertIn("has heads = 1, and this run 2", self.refused(
            "train", *GPT, f"--data=text:{self.book}", f"--init={auto.folder}", f"--out={self.path('no')}"))

    def test_a_folder_of_texts_is_named_with_a_slash_or_without(self):
        self.write("corpus/a.txt", self.text)
        for end in "", "/":
            run = self.fit("run", f"--data=text:{self.path('corpus')}{end}", "--workers=1", "--steps=1")
            self.assertEqual(run.summary["data"], "corpus")


@unittest.skipUnless(SENTENCEPIECE, "asup is built without SentencePiece")
class Tokenizers(TextCase):
    def test_one_is_trained_and_kept(self):
        run = self.fit("run", "--tokenizer=sentencepiece:400", "--workers=2", "--steps=40", "--stop-at=20")
        self.assertGreater(os.path.getsize(run.path("tokenizer.model")), 1000)
        self.call("train", f"--resume={run.folder}", "--stop-at=end")
        summary = run.summary
        # Fewer tokens than bytes: the loss of a token is of several bytes.
        self.assertLess(summary["test_bits_per_byte"], summary["test_loss"] / math.log(2) / 1.5)
        self.assertAlmostEqual(self.marks(run.path("model.safetensors"))["test_perplexity"],
                               summary["test_perplexity"], places=4)

        by_file = self.fit("file", f"--tokenizer={run.path('tokenizer.model')}", f"--init={run.folder}",
                           "--workers=2", "--steps=3")
        self.assertLess(by_file.losses[0], 5.5)
        self.assertIn("another tokenizer", self.refused(
            "train", *GPT, f"--data=text:{self.book}", f"--init={run.folder}", f"--out={self.path('no')}"))
        self.assertIn("tokenizer.model", self.refused(
            "train", *GPT, f"--data=text:{self.book}", f"--init={run.folder}", "--tokenizer=sentencepiece:400",
            f"--out={self.path('no')}"))
        self.assertIn("cannot become", self.refused("train", f"--resume={run.folder}", "--tokenizer=sentencepiece:500"))

    def test_says_what_is_wrong(self):
        flags = ["train", *GPT, f"--data=text:{self.book}", f"--out={self.path('no')}"]
        broken = self.write("broken.model", "this is no model")
        self.assertIn("broken.model: is no model of SentencePiece", self.refused(*flags, f"--tokenizer={broken}"))
        self.assertIn("is no file", self.refused(*flags, "--tokenizer=nowhere.model"))
        self.assertIn("300", self.refused(*flags, "--tokenizer=sentencepiece:9"))
        self.assertIn("fewer tokens", self.call(*flags, "--tokenizer=sentencepiece:90000", status=2).stderr)


class BadInput(TextCase):
    def check(self, flags, *words):
        said = self.refused("train", *GPT, *flags, f"--out={self.path('no')}")
        for word in words:
            self.assertIn(word, said, flags)
        self.assertFalse(os.path.exists(self.path("no")))

    def test_says_what_is_wrong(self):
        empty = self.write("empty.txt", "")
        latin = self.write("latin.txt", "ab\ncafé".encode("latin1") * 100)
        os.mkdir(self.path("folder"))
        book = f"--data=text:{self.book}"
        self.check(["--data=text:nowhere.txt"], "nowhere.txt", "no such file")
        self.check([f"--data=text:{empty}"], "empty.txt", "is empty")
        self.check([f"--data=text:{latin}"], "latin.txt", "byte 6 is 0xe9")
        self.check([f"--data=text:{self.path('folder')}"], "holds no text", ".txt")
        self.check([book, "--context=100000"], "tokens to train on", "Lower context")
        self.check([book, "--context=200", "--text-test=0.001"], "tokens to test with", "raise text-test")
        self.check([book, "--heads=5"], "heads = 5", "width = 32")
        self.check([book, "--augment-flip"], "augment-flip", "Leave it out")
        self.check([book, "--classes=3"], "classes", "Leave it out")
        self.check([book, "--stem=small"], "stem", "Leave it out")
        self.check(["--data=synthetic"], "model = gpt takes text", "text:PATH")

    def test_models_of_images_take_none(self):
        said = self.refused("train", "--model=cnn", f"--data=text:{self.book}")
        self.assertIn("model = cnn takes images", said)
        self.assertIn("gpt", said)
        self.assertIn("heads", self.refused("train", "--model=cnn", "--heads=2"))
        self.assertIn("context", self.refused("train", "--model=cnn", "--context=9"))
        self.assertIn("dropout", self.refused("train", "--model=cnn", "--dropout=0.5"))
        self.assertIn("heads", self.refused("train", "--model=lstm", "--heads=2", f"--data=text:{self.book}"))


if __name__ == "__main__":
    unittest.main()
