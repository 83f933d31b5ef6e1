"""Functions of text that make tokens, compared with the package tokenizers."""

import builtins
import pickle
import threading

import numpy as np
import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

import karez as kz
from karez import data
from karez.data import text

LINES = ["one two", "", "Grüße, 世界 \U0001f600", "two two two one", " spaces  and\ttabs\n", "x" * 200]


def bpe(special=False):
    """A small byte-level BPE tokenizer, trained here."""
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokens = ["[CLS]", "[SEP]"] if special else []
    trainer = trainers.BpeTrainer(vocab_size=300, show_progress=False, initial_alphabet=alphabet, special_tokens=tokens)
    made.train_from_iterator(LINES * 5, trainer)
    if special:
        pairs = [(token, made.token_to_id(token)) for token in tokens]
        made.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=pairs)
    return made


def elements(dataset):
    return list(dataset.as_numpy())


def test_bytes_are_those_of_utf8():
    function = text.byte_tokens()
    for line in LINES:
        tokens = function(line)
        assert tokens.dtype == np.int32 and tokens.tolist() == list(line.encode())
        assert function.decode(tokens) == line
        np.testing.assert_array_equal(function(line.encode()), tokens)
    assert function.vocabulary_size == 256 and function.decode([195, 40]) == "�("


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("truncation", ["right", "left"])
@pytest.mark.parametrize("max_length", [None, 5])
def test_tokens_are_those_of_the_library(special, truncation, max_length):
    made, reference = bpe(special), bpe(special)
    if max_length is not None:
        reference.enable_truncation(max_length, direction=truncation)
    function = text.tokenizer(made, max_length=max_length, truncation=truncation)
    for line in LINES:
        tokens = function(line)
        assert tokens.dtype == np.int32 and tokens.ndim == 1
        assert tokens.tolist() == reference.encode(line).ids
        if max_length is None:
            assert function.decode(tokens) == line
    assert made.truncation is None and function.vocabulary_size == made.get_vocab_size()
    bare = text.tokenizer(made, special_tokens=False)
    assert bare("one two").tolist() == made.encode("one two", add_special_tokens=False).ids


def test_a_tokenizer_is_read_from_its_file(tmp_path):
    made, path = bpe(), tmp_path / "tokenizer.json"
    made.save(str(path))
    for source in (path, str(path)):
        assert text.tokenizer(source)("one two").tolist() == made.encode("one two").ids

    class Fast:  # as in the package transformers
        backend_tokenizer = made

    assert text.tokenizer(Fast())("one two").tolist() == made.encode("one two").ids
    (tmp_path / "broken.json").write_text("{}")
    with pytest.raises(kz.DataError, match="broken.json' is not the JSON file of a tokenizer"):
        text.tokenizer(tmp_path / "broken.json")
    with pytest.raises(kz.DataError, match="cannot read .*none.json"):
        text.tokenizer(tmp_path / "none.json")
    with pytest.raises(kz.TypeError, match="expected a path, a tokenizers.Tokenizer or .*, got int"):
        text.tokenizer(3)


MAKERS = {"bytes": lambda: text.byte_tokens(max_length=9), "bpe": lambda: text.tokenizer(bpe(), max_length=9)}


@pytest.mark.parametrize(
    "name, options",
    [("bytes", {}), ("bytes", {"parallel": 2}), ("bpe", {"parallel": 2}), ("bpe", {"parallel": 2, "processes": True})],
)
def test_data_sets_make_tokens(name, options):
    function = MAKERS[name]()
    rows = [(line, i) for i, line in enumerate(LINES * 10)]
    dataset = data.from_source(rows).map(function, **options)
    first, second = dataset.iterator(), dataset.iterator()
    for i, ((a, n), (b, _)) in enumerate(zip(first, second, strict=True)):
        np.testing.assert_array_equal(a.numpy(), function(rows[i][0]))
        np.testing.assert_array_equal(a.numpy(), b.numpy())
        assert a.dtype == kz.int32 and n.item() == i
    assert ("process" in dataset.explain_data()) == ("processes" in options)
    tokens, _ = elements(dataset.padded_batch(len(LINES)))[0]
    width = max(len(function(line)) for line in LINES)
    assert tokens.dtype == np.int32
    for row, line in zip(tokens, LINES, strict=True):
        np.testing.assert_array_equal(row, np.pad(function(line), (0, width - len(function(line)))))
    buckets = dataset.bucket_by_length(lambda tokens, label: len(tokens), [5], [4, 3])
    assert {batch.shape[1] <= 4 for batch, _ in elements(buckets)} == {True, False}


def test_functions_use_threads_by_default():
    calls = set()

    class Traced(text.Function):
        def tokens(self, line):
            calls.add(threading.get_ident())
            return np.zeros(len(line), np.int32)

    function = Traced("traced", None, "right", 0)
    assert len(elements(data.from_source(LINES * 20).map(function, parallel=2))) == len(LINES) * 20
    assert calls  # the calls were made in this process


def test_the_library_computes_without_the_lock():
    function, line = text.tokenizer(bpe()), " ".join(str(7919 * i) for i in range(40_000))
    ticks, ended = [], threading.Event()

    def count():
        while not ended.wait(0.001):
            ticks.append(1)

    thread = threading.Thread(target=count)
    thread.start()
    before = len(ticks)
    function(line)
    after = len(ticks)
    ended.set()
    thread.join()
    assert after - before >= 10, "other threads of Python must run at the same time"


def test_fields_of_elements_are_found_by_number_and_key():
    assert text.byte_tokens(field=-1)(1, "a")[1].tolist() == [97]
    row = text.byte_tokens(field="text")({"id": 3, "text": "ab"})
    assert row["id"] == 3 and row["text"].tolist() == [97, 98]
    rows = data.from_source([{"text": "ab", "id": 1}]).map(text.byte_tokens(field="text"), parallel=2)
    assert elements(rows)[0]["text"].tolist() == [97, 98]
    with pytest.raises(kz.UserError, match="expected a dict with the key 'text', got a dict with the keys"):
        text.byte_tokens(field="text")({"words": "ab"})
    with pytest.raises(kz.UserError, match="the element has 1 items, but the text must be item 1"):
        text.byte_tokens(field=1)("ab")


def test_wrong_texts_and_options_are_errors():
    with pytest.raises(kz.TypeError, match="byte_tokens: expected a str or UTF-8 bytes, got int"):
        text.byte_tokens()(3)
    with pytest.raises(kz.DataError, match="byte_tokens: the text is not UTF-8: byte 1 is 0xff"):
        text.byte_tokens()(b"a\xff")
    limited = text.byte_tokens(max_length=3, truncation="error")
    assert len(limited("abc")) == 3
    with pytest.raises(kz.DataError, match="must have at most 3 tokens \\(max_length\\), got 4: 'abcd'"):
        limited("abcd")
    with pytest.raises(kz.DataError, match="at most 2 tokens"):
        text.tokenizer(bpe(), max_length=2, truncation="error")("one two three")
    with pytest.raises(kz.UserError, match="max_length must be at least 1, got 0"):
        text.byte_tokens(max_length=0)
    with pytest.raises(kz.UserError, match="truncation must be 'right', 'left' or 'error', got 'middle'"):
        text.byte_tokens(truncation="middle")


def test_functions_can_be_pickled():
    for function in (text.byte_tokens(max_length=4, truncation="left"), text.tokenizer(bpe(), max_length=4)):
        again = pickle.loads(pickle.dumps(function))
        for line in LINES:
            np.testing.assert_array_equal(again(line), function(line))
        assert repr(again) == repr(function) == f"text.{function.__name__}"


def test_a_missing_package_is_named(monkeypatch):
    real = builtins.__import__

    def without(name, *arguments, **options):
        if name == "tokenizers":
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(kz.UserError, match="tokenizer needs the package tokenizers: pip install tokenizers"):
        text.tokenizer("tokenizer.json")
    assert text.byte_tokens()("a").tolist() == [97]
