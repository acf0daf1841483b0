#!/usr/bin/env python3
"""Make the golden tokens of tests/data/test_bpe.c: train byte pairs on the Jargon File, and tokenize texts with Hugging
Face's tokenizers. Run from anywhere; needs Debian's jargon-text, and tokenizers (made with 0.23.3):

    python3 -m venv V && V/bin/pip install tokenizers && V/bin/python tests/golden/make_bpe.py

Writes bpe/vocab.json, bpe/merges.txt and bpe/cases.json: [{"text": "...", "tokens": [...]}, ...].
"""
import gzip
import json
import os
import random
import tempfile
from tokenizers import AddedToken, ByteLevelBPETokenizer

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bpe")
JARGON = "/usr/share/doc/jargon-text/jargon.txt.gz"
END = "<|endoftext|>"
SIZE = 512

TEXTS = [
    "", " ", "a", "\n", "Hello, world!", " lower lowest",
    "The hacker's jargon isn't what it'll have been; I'd say we're",
    "don't DON'T won't've 'tis 's 'S ' t 'll'll x're'",
    "It\u2019s a curly quote, which is no contraction\u2019s apostrophe.",
    "3.14159 and 2 + 2 = 4; 10,000,000 x1y2z3 \u00bd \u2167 \u0663\u0664 \u00b2",
    "emoji \U0001f600\U0001f44d\U0001f3fd \U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f!",
    "\u6f22\u5b57\u3068\u304b\u306a\u3000\uff21\uff11 \ud55c\uad6d\uc5b4 \u4e2d\u6587\u3002",
    "e\u0301 n\u0303 A\u030a combining \u0300alone",
    "\u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u05e2\u05d1\u05e8\u05d9\u05ea "
    "\u0939\u093f\u0928\u094d\u0926\u0940",
    "run   of    spaces     ", "   lead", "tab\tand\t\ttabs \t mixed\t ",
    "a\nb\n\nc\n\n\nd\r\ne\r\n\r\nf \n g\n  \n   h\n", "\v\f\x1c\x1f",
    "no\u00a0break\u00a0\u00a0space\u1680\u2003em\u2028\u2029\u202f\u205f\u3000x",
    "\u180e\u200b\ufeff which were never, or are no longer, white space \u180e x\u180ey",
    "\u0085next line \u0085", "if (x != NULL && *x++ == '\\n') { return -1; } /* ... */ #include <stdio.h>",
    "=" * 70 + "\n" + "-" * 33, "....", "a" * 100, "aA" * 40, "\u00e9" * 30,
    END, END + END, "one" + END + "two", "one " + END + " two  " + END + "\n", "<|endoftext|", "<|endoftext|> <|",
    "  " + END + "  x", "\U0001d49c\U0001d4b7 \U00010900 \U0002a6d6\U0010ffff\ufffd \ue000",
    "\u0345\u2160\u24b6\u1d2c \u00aa\u00ba",
]


def characters():
    """Characters of all kinds that every Unicode since 6.0 knows; frequent ones more often."""
    plain = [chr(c) for c in range(0x20, 0x7f)]
    space = list(" \n\t\r \n  \u00a0\u2003\u3000")
    other = [chr(c) for c in list(range(0xa1, 0x250)) + list(range(0x300, 0x370)) + list(range(0x391, 0x3a2)) +
             list(range(0x410, 0x450)) + list(range(0x3041, 0x3097)) + list(range(0x4e00, 0x4e80)) +
             list(range(0x1f300, 0x1f320)) + list(range(0x660, 0x66a)) + list(range(0x2150, 0x2180))]
    return plain, space, other


def made(count):
    draw = random.Random(1)
    plain, space, other = characters()
    words = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "the", "hacker", "computer", " ", "  ", "\n", "ing"]
    for _ in range(count):
        length = draw.randrange(1, 60)
        yield "".join(draw.choice(draw.choices([plain, space, other, words], [4, 3, 2, 3])[0]) for _ in range(length))


def main():
    os.makedirs(HERE, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "jargon.txt")
        with gzip.open(JARGON) as f, open(path, "wb") as to:
            to.write(f.read())
        trained = ByteLevelBPETokenizer()
        trained.train([path], vocab_size=SIZE, min_frequency=2, special_tokens=[END], show_progress=False)
        trained.save_model(HERE)
    t = ByteLevelBPETokenizer(os.path.join(HERE, "vocab.json"), os.path.join(HERE, "merges.txt"))
    t.add_special_tokens([AddedToken(END, normalized=False)])
    cases = [{"text": x, "tokens": t.encode(x).ids} for x in TEXTS + list(made(80))]
    with open(os.path.join(HERE, "cases.json"), "w", encoding="ascii") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")


if __name__ == "__main__":
    main()
