#!/usr/bin/env python3
"""Makes the tokenizers and their results of tests/golden/text.tar.xz: small ones of every kind, trained here with the settings of known
models, and what the `tokenizers` and `sentencepiece` packages make of texts in many scripts.
Usage: make_tokenizers.py FOLDER (needs: pip install tokenizers sentencepiece protobuf)

FOLDER/tokenizers/NAME/...            the files of a tokenizer
FOLDER/tokenizers/NAME/expected.json  texts with "ids", "plain" (without special tokens), "decoded", "decoded_all"
FOLDER/sweeps/NAME/tokenizer.json     tokens are bytes, so that numbers show what the steps before did to a character
FOLDER/sweeps/NAME/expected.json      blocks of characters, each between two letters, with a hash of their numbers
"""

import base64
import io
import json
import pathlib
import sys
import unicodedata

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import tokenizer_texts

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CLIP = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
BYTES = [f"<0x{i:02X}>" for i in range(256)]


def learn(tokenizer, trainer):
    tokenizer.train_from_iterator(tokenizer_texts.LEARN, trainer)
    return tokenizer


def byte_trainer(size, special):
    return trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False,
                               initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def byte_level(size, special, normalizer=None, pre=None, **model):
    t = Tokenizer(models.BPE(**model))
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer = pre or pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    return learn(t, byte_trainer(size, special))


def split(regex):
    return pre_tokenizers.Split(Regex(regex), "isolated")


def split_bytes(*steps):
    return pre_tokenizers.Sequence([*steps, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def around(t, single, *names):
    t.post_processor = processors.TemplateProcessing(single=single, special_tokens=[(n, t.token_to_id(n)) for n in names])
    return t


def gpt2():
    t = byte_level(800, ["<|endoftext|>"])
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return t


def roberta():
    t = byte_level(800, ["<s>", "<pad>", "</s>", "<unk>"])
    t.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    return t


def bert(lower=True, strip=None, prefix="##"):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", continuing_subword_prefix=prefix, max_input_chars_per_word=100))
    t.normalizer = normalizers.BertNormalizer(lowercase=lower, strip_accents=strip)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece(prefix=prefix)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    learn(t, trainers.WordPieceTrainer(vocab_size=700, special_tokens=special, continuing_subword_prefix=prefix, show_progress=False))
    return around(t, "[CLS] $A [SEP]", "[CLS]", "[SEP]")


def sentence_bpe(**changes):
    """A byte-pair model over texts with visible spaces, with bytes for what it has not learnt."""
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    learn(t, trainers.BpeTrainer(vocab_size=900, special_tokens=["<unk>", "<s>", "</s>", *BYTES], show_progress=False, limit_alphabet=250))
    data = json.loads(t.to_str())
    data["added_tokens"] = data["added_tokens"][:3]
    data["pre_tokenizer"] = None
    data.update(changes)
    return Tokenizer.from_str(json.dumps(data))


def llama2():
    t = sentence_bpe()
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return around(t, "<s> $A", "<s>")


def gemma():
    t = sentence_bpe()
    t.normalizer = normalizers.Replace(" ", "▁")
    t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return around(t, "<s> $A", "<s>")


def mistral():
    t = sentence_bpe()
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return around(t, "<s> $A </s>", "<s>", "</s>")


def llama3():
    t = byte_level(800, ["<|begin_of_text|>", "<|end_of_text|>"], pre=split_bytes(split(LLAMA3)))
    data = json.loads(t.to_str())
    data["model"]["ignore_merges"] = True
    for word in ["Ġbrown", "lazy", "Ñĥ"]:  # whole words that no merges lead to
        data["model"]["vocab"].setdefault(word, len(data["model"]["vocab"]))
    t = Tokenizer.from_str(json.dumps(data))
    around(t, "<|begin_of_text|> $A", "<|begin_of_text|>")
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True), t.post_processor])
    return t


def neox():
    t = byte_level(700, ["<|endoftext|>", "<|padding|>"], normalizers.NFC())
    t.add_tokens([AddedToken(" " * n, normalized=True) for n in range(8, 1, -1)])
    return t


def charsmap(rule):
    return sentencepiece_model(model_type="unigram", normalization_rule_name=rule)[1].normalizer_spec.precompiled_charsmap


def unigram(special, **model):
    t = Tokenizer(models.Unigram())
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    learn(t, trainers.UnigramTrainer(vocab_size=900, special_tokens=special, unk_token="<unk>", show_progress=False))
    data = json.loads(t.to_str())
    data["model"].update(model)
    return Tokenizer.from_str(json.dumps(data))


def t5():
    t = unigram(["<pad>", "</s>", "<unk>", "<extra_id_0>"])
    t.normalizer = normalizers.Precompiled(charsmap("nmt_nfkc"))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    t.decoder = decoders.Metaspace()
    return around(t, "$A </s>", "</s>")


def albert():
    t = unigram(["<pad>", "<unk>", "[CLS]", "[SEP]"])
    t.normalizer = normalizers.Sequence([
        normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), normalizers.NFKD(), normalizers.StripAccents(),
        normalizers.Lowercase(), normalizers.Precompiled(charsmap("nmt_nfkc_cf")), normalizers.Replace(Regex(" {2,}"), " ")])
    t.decoder = decoders.Metaspace()
    t.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    return around(t, "[CLS] $A [SEP]", "[CLS]", "[SEP]")


def xglm():
    t = unigram(["<unk>", "<s>", "</s>", *BYTES], byte_fallback=True)
    data = json.loads(t.to_str())
    data["added_tokens"] = data["added_tokens"][:3]
    t = Tokenizer.from_str(json.dumps(data))
    t.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Strip(left=False, right=True)])
    t.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    return around(t, "</s> $A", "</s>")


def clip():
    t = Tokenizer(models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>"))
    t.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(CLIP), "removed", invert=True),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.decoder = decoders.ByteLevel()
    learn(t, trainers.BpeTrainer(vocab_size=800, special_tokens=["<|startoftext|>", "<|endoftext|>"], end_of_word_suffix="</w>",
                                 initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.post_processor = processors.RobertaProcessing(("<|endoftext|>", 1), ("<|startoftext|>", 0), trim_offsets=False,
                                                    add_prefix_space=False)
    return t


def gpt1():
    t = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    t.normalizer = normalizers.BertNormalizer(lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.BPEDecoder(suffix="</w>")
    return learn(t, trainers.BpeTrainer(vocab_size=600, special_tokens=["<unk>"], end_of_word_suffix="</w>", show_progress=False))


def starcoder():
    return byte_level(700, ["<|endoftext|>"], pre=pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]))


def deepseek():
    return byte_level(800, ["<｜end▁of▁sentence｜>"], pre=split_bytes(
        split(r"\p{N}{1,3}"), split("[一-龥\u3040-ゟ゠-ヿ]+"),
        split(r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")))


def words():
    t = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    t.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Strip()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits()])
    return learn(t, trainers.WordLevelTrainer(special_tokens=["[UNK]"], show_progress=False))


def punctuation(behavior):
    t = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="@@", fuse_unk=False))
    t.normalizer = normalizers.NFKD()
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Punctuation(behavior), pre_tokenizers.CharDelimiterSplit(" ")])
    learn(t, trainers.BpeTrainer(vocab_size=500, special_tokens=["<unk>"], continuing_subword_prefix="@@", show_progress=False))
    t.add_tokens([AddedToken("NEW", single_word=True, normalized=False), AddedToken("quick", rstrip=True), AddedToken("qui")])
    return t


KINDS = {
    "gpt2": gpt2, "roberta": roberta, "bert_uncased": bert, "bert_cased": lambda: bert(lower=False),
    "bert_accents": lambda: bert(strip=False, prefix="@"), "llama2": llama2, "llama3": llama3, "mistral": mistral, "gemma": gemma,
    "qwen2": lambda: byte_level(800, ["<|endoftext|>", "<|im_start|>"], normalizers.NFC(), split_bytes(split(QWEN2))),
    "o200k": lambda: byte_level(800, ["<|endoftext|>"], pre=split_bytes(split(O200K))),
    "bloom": lambda: byte_level(800, ["<unk>", "<s>"], pre=split_bytes(split(BLOOM))), "neox": neox, "t5": t5, "albert": albert,
    "xglm": xglm, "clip": clip, "gpt1": gpt1, "starcoder": starcoder, "deepseek": deepseek, "words": words,
    "prefix_space": lambda: byte_level(600, ["<s>"], normalizers.NFKC(), pre_tokenizers.ByteLevel(add_prefix_space=True)),
    **{f"punctuation_{b}": (lambda b=b: punctuation(b))
       for b in ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]},
}


def results(encode, decode):
    rows = []
    for script, texts in tokenizer_texts.TRY.items():
        for text in texts:
            ids, plain = encode(text, True), encode(text, False)
            rows.append({"script": script, "text": text, "ids": ids, "plain": plain, "decoded": decode(ids, True),
                         "decoded_all": decode(ids, False)})
    # Tokens in no order: decoders meet bytes and marks where no text has them.
    end = max(max(row["ids"], default=0) for row in rows) + 1
    for seed in range(4):
        ids = [(seed * 7919 + i * i * 31 + i * 17) % end for i in range(60)]
        rows.append({"script": "any tokens", "ids": ids, "decoded": decode(ids, True), "decoded_all": decode(ids, False)})
    return rows


def write(folder, rows):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "expected.json").write_text(json.dumps(rows, ensure_ascii=False, separators=(",", ":")))


def package_results(t):
    t.no_truncation()
    t.no_padding()
    return results(lambda text, special: t.encode(text, add_special_tokens=special).ids,
                   lambda ids, skip: t.decode(ids, skip_special_tokens=skip))


def sentencepiece_model(**options):
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(tokenizer_texts.LEARN), model_writer=out, vocab_size=800, hard_vocab_limit=False,
        minloglevel=2, num_threads=1, **options)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(out.getvalue())
    return out.getvalue(), proto


def write_sentencepiece(folder, name, config, **options):
    data, _ = sentencepiece_model(**options)
    folder.mkdir(parents=True)
    (folder / name).write_bytes(data)
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    sp = sentencepiece.SentencePieceProcessor(model_proto=data)
    kind = config["tokenizer_class"]
    before = [sp.bos_id()] if kind == "LlamaTokenizer" else []
    behind = [sp.eos_id()] if kind == "T5Tokenizer" else []
    rows = results(lambda text, special: before + sp.encode(text) + behind if special else sp.encode(text), lambda ids, skip: sp.decode(ids))
    # Control pieces found in the text are another program's choice; of two ways that weigh the same ("00" and "0" in turn)
    # this release of SentencePiece takes another than Debian's.
    write(folder, [row for row in rows if "<s>" not in row.get("text", "") and "000.00" not in row.get("text", "")])


def write_files(folder, made):
    """The same tokenizers as vocab.json with merges.txt, and as vocab.txt."""
    for name, source in [("gpt2_files", "gpt2"), ("roberta_files", "roberta"), ("qwen2_files", "qwen2")]:
        data = json.loads(made[source].to_str())
        here = folder / name
        write(here, package_results(made[source]))
        vocab = dict(data["model"]["vocab"])
        if source == "roberta":
            vocab["<mask>"] = made[source].token_to_id("<mask>")
        (here / "vocab.json").write_text(json.dumps(vocab))
        merges = "".join(" ".join(pair) + "\n" for pair in data["model"]["merges"])
        (here / "merges.txt").write_text("#version: 0.2\n" + merges)
        config = {"gpt2": {}, "roberta": {"tokenizer_class": "RobertaTokenizer"}, "qwen2": {
            "tokenizer_class": "Qwen2Tokenizer",
            "added_tokens_decoder": {str(t["id"]): {k: v for k, v in t.items() if k != "id"} for t in data["added_tokens"]}}}[source]
        if config:
            (here / "tokenizer_config.json").write_text(json.dumps(config))
    for name, source, config in [("bert_files", "bert_uncased", None), ("bert_cased_files", "bert_cased", {"do_lower_case": False})]:
        here = folder / name
        write(here, package_results(made[source]))
        by_id = sorted(made[source].get_vocab().items(), key=lambda item: item[1])
        (here / "vocab.txt").write_text("".join(token + "\n" for token, _ in by_id))
        if config:
            (here / "tokenizer_config.json").write_text(json.dumps(config))


OLD_TABLES = (normalizers.BertNormalizer, normalizers.NFC, normalizers.NFD, normalizers.NFKC, normalizers.NFKD, normalizers.StripAccents)
SWEEPS = {
    "bert": (normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()),
    "nfc": (normalizers.NFC(), None), "nfd": (normalizers.NFD(), None),
    "nfkc": (normalizers.NFKC(), pre_tokenizers.Digits(individual_digits=True)),
    "nfkd": (normalizers.NFKD(), pre_tokenizers.Whitespace()), "lower": (normalizers.Lowercase(), pre_tokenizers.WhitespaceSplit()),
    "strip_accents": (normalizers.StripAccents(), pre_tokenizers.Punctuation()), "nmt": (normalizers.Nmt(), None),
    "strip": (normalizers.Strip(), pre_tokenizers.Split(Regex(r"\w+|\s+"), "isolated")),
    "gpt2": (None, pre_tokenizers.Split(Regex(GPT2), "isolated")), "llama3": (None, pre_tokenizers.Split(Regex(LLAMA3), "isolated")),
    "o200k": (None, pre_tokenizers.Split(Regex(O200K), "isolated")),
}


def hash_of(ids):
    value = 14695981039346656037
    for i in ids:
        value = ((value ^ i) * 1099511628211) % 2**64
    return f"{value:016x}"


def write_sweep(folder, normalizer, pre):
    t = Tokenizer(models.BPE(vocab={b: i for i, b in enumerate(BYTES)}, merges=[], byte_fallback=True, end_of_word_suffix="|"))
    if normalizer:
        t.normalizer = normalizer
    if pre:
        t.pre_tokenizer = pre
    # The package's tables of normal forms and of marks are some versions of Unicode old: what came later differs there. The
    # tables of Python are of Unicode 14, and of 3.2; only characters are taken that have been the same since.
    tables = [unicodedata, unicodedata.ucd_3_2_0] if isinstance(normalizer, OLD_TABLES) else [unicodedata]
    rows = []
    for first in range(0, 0x32000, 128):
        chars = [chr(c) for c in range(first, first + 128)
                 if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co") and len({table.category(chr(c)) for table in tables}) == 1]
        if chars:
            rows.append({"first": first, "points": [ord(c) for c in chars],
                         "hash": hash_of(i for c in chars for i in [*t.encode(f"a{c}b").ids, 256])})
    folder.mkdir(parents=True)
    (folder / "tokenizer.json").write_text(t.to_str())
    for row in rows:  # as runs: first, count, first, count
        runs = []
        for point in row.pop("points"):
            if runs and runs[-2] + runs[-1] == point:
                runs[-1] += 1
            else:
                runs += [point, 1]
        row["runs"] = runs
    write(folder, rows)


def main():
    root = pathlib.Path(sys.argv[1])
    made = {name: make() for name, make in KINDS.items()}
    for name, t in made.items():
        write(root / "tokenizers" / name, package_results(t))
        (root / "tokenizers" / name / "tokenizer.json").write_text(t.to_str())
    write_files(root / "tokenizers", made)
    write_sentencepiece(root / "tokenizers" / "t5_model", "spiece.model", {"tokenizer_class": "T5Tokenizer"}, model_type="unigram",
                        pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    write_sentencepiece(root / "tokenizers" / "llama_model", "tokenizer.model", {"tokenizer_class": "LlamaTokenizer"},
                        model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False)
    for name, (normalizer, pre) in SWEEPS.items():
        write_sweep(root / "sweeps" / name, normalizer, pre)


main()
