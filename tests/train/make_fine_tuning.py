#!/usr/bin/env python3
"""Small random models in the folders that transformers writes, data, and the losses of their first steps of training by transformers and PEFT:
what tests/golden/fine_tuning.tar.xz holds.

    make_fine_tuning.py FOLDER [NAME...]     needs PyTorch, transformers, PEFT, tokenizers and Pillow; then tar -cJf
                                             fine_tuning.tar.xz -C FOLDER fine_tuning. With names, only these.

FOLDER/fine_tuning/NAME/model         a folder that transformers wrote
FOLDER/fine_tuning/NAME/data          a folder of folders of images, FILE.csv with texts and classes, or a text
FOLDER/fine_tuning/NAME/case.json     "arguments" of `train`, "losses" of the first steps of SGD, "tested": the loss behind them on the
                                      rows that were held back
"""
import csv
import json
import os
import shutil
import sys

import numpy
import peft
import torch
import transformers
from PIL import Image
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

STEPS, BATCH, RATE = 5, 4, 0.1
IMAGE = dict(image_size=16, patch_size=8, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
             hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
ENCODER = dict(vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
               max_position_embeddings=14, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=2)
SIZES = {"size": {"height": 16, "width": 16}, "resample": 2}
IMAGES = [
    ("vit", "ViTForImageClassification", "ViTConfig", dict(IMAGE, num_labels=3), "ViTImageProcessorPil", SIZES),
    ("deit", "DeiTForImageClassification", "DeiTConfig", dict(IMAGE, num_labels=3), "DeiTImageProcessorPil",
     {"size": {"height": 20, "width": 18}, "crop_size": {"height": 16, "width": 16}}),
    ("dinov2", "Dinov2ForImageClassification", "Dinov2Config",
     dict(image_size=16, patch_size=8, hidden_size=16, mlp_ratio=2, num_hidden_layers=2, num_attention_heads=2, num_labels=3),
     "BitImageProcessorPil", {"size": {"shortest_edge": 18}, "crop_size": {"height": 16, "width": 16}}),
    ("convnextv2", "ConvNextV2ForImageClassification", "ConvNextV2Config",
     dict(hidden_sizes=[4, 6], depths=[1, 2], num_stages=2, patch_size=2, num_labels=3), "ConvNextImageProcessorPil",
     {"size": {"shortest_edge": 16}, "crop_pct": 0.8}),
]
TEXTS = [
    ("bert", "BertForSequenceClassification", "BertConfig", ENCODER),
    ("roberta", "RobertaForSequenceClassification", "RobertaConfig", dict(ENCODER, max_position_embeddings=16)),
    ("distilbert", "DistilBertForSequenceClassification", "DistilBertConfig",
     dict(vocab_size=40, dim=16, hidden_dim=24, n_layers=2, n_heads=2, max_position_embeddings=14, dropout=0.0, attention_dropout=0.0,
          seq_classif_dropout=0.0, num_labels=2)),
]
DECODER = dict(vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
               max_position_embeddings=16)
LANGUAGE = [
    ("gpt2", "GPT2LMHeadModel", "GPT2Config",
     dict(vocab_size=40, n_positions=16, n_embd=16, n_layer=2, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)),
    ("llama", "LlamaForCausalLM", "LlamaConfig", dict(DECODER, pad_token_id=0)),
    ("mistral", "MistralForCausalLM", "MistralConfig", dict(DECODER, sliding_window=3)),
    ("qwen2", "Qwen2ForCausalLM", "Qwen2Config", dict(DECODER, tie_word_embeddings=True)),
    ("phi3", "Phi3ForCausalLM", "Phi3Config", dict(DECODER, pad_token_id=0)),
    ("gpt_neox", "GPTNeoXForCausalLM", "GPTNeoXConfig",
     dict(vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=16)),
    ("gemma2", "Gemma2ForCausalLM", "Gemma2Config",
     dict(DECODER, head_dim=6, sliding_window=3, query_pre_attn_scalar=12, attn_implementation="eager")),
]
# of PEFT: the case with the model, rank, alpha, targets (None: PEFT's own)
LORA = [
    ("lora_bert", "bert", 2, 6, None), ("lora_roberta", "roberta", 2, 8, ["query", "dense"]), ("lora_vit", "vit", 3, 4, ["q_proj", "fc1"]),
    ("lora_gpt2", "gpt2", 2, 8, None), ("lora_llama", "llama", 4, 16, ["q_proj", "v_proj", "down_proj"]),
    ("lora_gemma2", "gemma2", 2, 8, None),
]
WORDS = ("the a film plot was is good bad very dull fine long short and but not i we saw liked hated it too slow fast loud cast great poor "
         "never again").split()


def word_piece(roberta):
    special = ["<s>", "<pad>", "</s>", "<unk>"] if roberta else ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    unknown, first, last = (special[3], special[0], special[2]) if roberta else (special[1], special[2], special[3])
    vocabulary = {word: i for i, word in enumerate(special + WORDS)}
    t = Tokenizer(models.WordLevel(vocabulary, unk_token=unknown))
    t.normalizer = normalizers.Lowercase()
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    t.add_special_tokens(special)
    t.post_processor = processors.TemplateProcessing(single=f"{first} $A {last}",
                                                     special_tokens=[(x, vocabulary[x]) for x in (first, last)])
    pad = special[1] if roberta else special[0]
    return transformers.PreTrainedTokenizerFast(tokenizer_object=t, unk_token=unknown, pad_token=pad, cls_token=first, sep_token=last,
                                                model_max_length=12)


def made(model, config, arguments, folder):
    torch.manual_seed(3)
    net = getattr(transformers, model)(getattr(transformers, config)(**arguments))
    net.save_pretrained(folder)
    return net.train()


def descend(net, batches):
    """Losses of steps of SGD."""
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=RATE)
    losses = []
    for batch in batches:
        loss = net(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def write_case(folder, arguments, losses, tested, **more):
    common = ["--optimizer", "sgd", "--momentum", "0", "--lr", str(RATE), "--batch", str(BATCH), "--epochs", "1", "--in-order", "--clip", "0"]
    json.dump(dict(arguments=arguments + common, losses=losses, tested=tested, **more), open(folder + "/case.json", "w"), indent=1)


def with_factors(net, factors):
    """The model as PEFT makes it learn, and the options of `train` for it."""
    if factors is None:
        return net, []
    rank, alpha, targets = factors
    kind = type(net).__name__
    task = "SEQ_CLS" if kind.endswith("SequenceClassification") else None if kind.endswith("ImageClassification") else "CAUSAL_LM"
    head = None if task == "CAUSAL_LM" else ["classifier"]
    torch.manual_seed(0)
    net = peft.get_peft_model(net, peft.LoraConfig(r=rank, lora_alpha=alpha, target_modules=targets, task_type=task, lora_dropout=0.0,
                                                   modules_to_save=head))
    return net, ["--lora", str(rank), "--lora-alpha", str(alpha)] + (["--lora-targets", ",".join(targets)] if targets else [])


def images(folder, name, model, config, arguments, processor, options, factors=None):
    net, more = with_factors(made(model, config, arguments, folder + "/model"), factors)
    prepare = getattr(transformers, processor)(**options)
    prepare.save_pretrained(folder + "/model")
    random = numpy.random.default_rng(5)
    rows = {"train": [], "val": []}
    for part, count in (("train", STEPS * BATCH), ("val", 6)):
        for i in range(count):
            kind = "abc"[i * 3 // count]
            path = f"{folder}/data/{part}/{kind}/{i:02}.png"
            os.makedirs(os.path.dirname(path), exist_ok=True)
            shape = (*sorted(int(x) for x in random.integers(17, 40, 2)), 3)  # as in zoo/make_image_processors.py
            Image.fromarray(random.integers(0, 256, shape, dtype=numpy.uint8)).save(path)
            rows[part].append((prepare(Image.open(path).convert("RGB"), return_tensors="pt")["pixel_values"][0], "abc".index(kind)))
    batch = lambda some: dict(pixel_values=torch.stack([x for x, _ in some]), labels=torch.tensor([y for _, y in some]))
    train = rows["train"]
    losses = descend(net, [batch(train[i:i + BATCH]) for i in range(0, len(train), BATCH)])
    with torch.no_grad():
        tested = net.eval()(**batch(rows["val"])).loss.item()
    write_case(folder, ["fit", "data", "--model", "model"] + more, losses, tested)


def texts(folder, name, model, config, arguments, factors=None):
    net, more = with_factors(made(model, config, arguments, folder + "/model"), factors)
    tokenizer = word_piece(name == "roberta")
    tokenizer.save_pretrained(folder + "/model")
    random = numpy.random.default_rng(7)
    rows = []
    for i in range(STEPS * BATCH * 5 // 4):
        words = [WORDS[j] for j in random.integers(0, len(WORDS), int(random.integers(1, 16)))]
        rows.append((" ".join(words) + (', "so"\nto say' if i == 3 else ""), int(random.integers(0, 2))))
    os.makedirs(folder + "/data")
    with open(folder + "/data/texts.csv", "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["note", "text", "label"])
        out.writerows([(i, text, label) for i, (text, label) in enumerate(rows)])
    most = 12 if name != "roberta" else 14
    batch = lambda some: dict(tokenizer([x for x, _ in some], padding=True, truncation=True, max_length=most, return_tensors="pt",
                                        return_token_type_ids=False), labels=torch.tensor([y for _, y in some]))
    train, held = [r for i, r in enumerate(rows) if i % 5 != 4], [r for i, r in enumerate(rows) if i % 5 == 4]
    losses = descend(net, [batch(train[i:i + BATCH]) for i in range(0, len(train), BATCH)])
    with torch.no_grad():
        tested = net.eval()(**batch(held)).loss.item()
    write_case(folder, ["fit", "data/texts.csv", "--model", "model", "--length", str(most)] + more, losses, tested)


def language(folder, name, model, config, arguments, factors=None):
    net, more = with_factors(made(model, config, arguments, folder + "/model"), factors)
    tokenizer = word_piece(name == "llama")
    if name != "llama":  # which has a first token
        tokenizer.backend_tokenizer.post_processor = processors.Sequence([])
    tokenizer.save_pretrained(folder + "/model")
    random = numpy.random.default_rng(9)
    text = " ".join(WORDS[j] for j in random.integers(0, len(WORDS), 180))
    os.makedirs(folder + "/data")
    open(folder + "/data/text.txt", "w").write(text)
    ids = torch.tensor(tokenizer(text)["input_ids"])
    length = 8
    blocks = ids[:len(ids) // length * length].view(-1, length)
    held = len(blocks) // 10
    batch = lambda some: dict(input_ids=some, labels=some)
    losses = descend(net, [batch(blocks[i:i + BATCH]) for i in range(0, len(blocks) - held, BATCH)])
    with torch.no_grad():
        tested = net.eval()(**batch(blocks[-held:])).loss.item()
    write_case(folder, ["text", "--text", "data/text.txt", "--model", "model", "--length", str(length)] + more, losses, tested)


def main():
    root = os.path.join(sys.argv[1], "fine_tuning")
    known = {case[0]: (make, case) for make, cases in ((images, IMAGES), (texts, TEXTS), (language, LANGUAGE)) for case in cases}
    plain = [(name, make, case, None) for name, (make, case) in known.items()]
    for name, make, case, factors in plain + [(name, *known[of], factors) for name, of, *factors in LORA]:
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        folder = os.path.join(root, name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        make(folder, *case, factors=factors)


if __name__ == "__main__":
    main()
