#!/usr/bin/env python3
"""Makes tests/golden/sounds.tar.xz with transformers: folders of small random Whispers, waves, and what `generate` writes about them.
Usage: make_sounds.py FOLDER (needs: pip install torch transformers tokenizers numpy)

FOLDER/sounds/NAME.wav            a quarter of a second of tones, at 16000 samples a second, in the kinds of samples that WAV has
FOLDER/sounds/NAME/...            a folder of Whisper: config, weights, tokenizer, preprocessor_config.json, generation_config.json
FOLDER/sounds/NAME/expected.json  command lines behind "ckpt zoo run NAME", the tokens that they add and their text
"""

import json
import pathlib
import sys
import wave

import numpy as np
import tokenizers
import torch
import transformers
from tokenizers import AddedToken, decoders, models, pre_tokenizers

RATE = 16000
SPECIAL = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|fr|>", "<|translate|>", "<|transcribe|>",
           "<|nospeech|>", "<|notimestamps|>"]


def tones(seed):
    random = np.random.default_rng(seed)
    t = np.arange(RATE // 4) / RATE
    x = sum(random.uniform(0.1, 0.3) * np.sin(2 * np.pi * random.uniform(100, 3000) * t * (1 + 0.3 * t)) for _ in range(3))
    return x * (0.3 + 0.7 * (t > random.uniform(0.05, 0.15)))


def write_wave(path, channels, width):
    """`width`: bytes of a sample, 0 for float32."""
    samples = np.stack(channels, 1)
    if width == 0:  # which Python's module does not write
        data = samples.astype("<f4").tobytes()
        head = np.array([len(channels), RATE, RATE * 4 * len(channels)], "<u4").tobytes()
        form = (3).to_bytes(2, "little") + head[:2] + head[4:8] + head[8:12] + (4 * len(channels)).to_bytes(2, "little") + (32).to_bytes(2, "little")
        body = b"fmt " + len(form).to_bytes(4, "little") + form + b"data" + len(data).to_bytes(4, "little") + data
        path.write_bytes(b"RIFF" + (4 + len(body)).to_bytes(4, "little") + b"WAVE" + body)
        return data_back(np.frombuffer(data, "<f4").astype(np.float32), len(channels))
    steps = 1 << (8 * width - 1)
    numbers = np.clip(np.round(samples * steps), -steps, steps - 1).astype(np.int64)
    stored = (numbers + (128 if width == 1 else 0)).astype("<i8").reshape(-1, 1).view(np.uint8)[:, :width]
    with wave.open(str(path), "wb") as out:
        out.setnchannels(len(channels))
        out.setsampwidth(width)
        out.setframerate(RATE)
        out.writeframes(stored.tobytes())
    return data_back((numbers / steps).astype(np.float32).reshape(-1), len(channels))


def data_back(samples, channels):
    return samples.reshape(-1, channels).mean(1, dtype=np.float32)


def tokenizer():
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("i", "n"), ("a", "n"), ("an", "d"), ("Ġ", "and"), ("e", "r")]
    vocab = {letter: i for i, letter in enumerate(letters)}
    for a, b in merges:
        vocab[a + b] = len(vocab)
    tok = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    tok.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIAL])  # no times: of random ones `generate` finds no end
    return tok


FOLDERS = {
    "many": {"languages": True},
    "english": {"forced_decoder_ids": [[1, "<|notimestamps|>"]]},
    "forced": {"languages": True, "forced_decoder_ids": [[1, None], [2, "<|translate|>"]]},
    "old": {"forced_decoder_ids": [[1, "<|de|>"], [2, "<|transcribe|>"], [3, "<|notimestamps|>"]], "suppress": False},
}
RUNS = [([], {}), (["--beams", "3"], {"num_beams": 3}), (["--generate", "7"], {"max_new_tokens": 7}),
        (["--repetition-penalty", "1.4", "--generate", "20"], {"repetition_penalty": 1.4, "max_new_tokens": 20}),
        (["--beams", "4", "--generate", "12"], {"num_beams": 4, "max_new_tokens": 12})]
SPOKEN = [(["--language", "de"], {"language": "de"}), (["--task", "translate"], {"task": "translate"}),
          (["--language", "fr", "--task", "translate", "--beams", "2"], {"language": "fr", "task": "translate", "num_beams": 2})]


def make_folder(folder, settings, seed):
    tok = tokenizer()
    ids = {text: tok.token_to_id(text) for text in SPECIAL}
    torch.manual_seed(seed)
    model = transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(
        vocab_size=tok.get_vocab_size(), num_mel_bins=20, d_model=16, encoder_layers=2, encoder_attention_heads=2, encoder_ffn_dim=24,
        decoder_layers=2, decoder_attention_heads=2, decoder_ffn_dim=24, max_source_positions=100, max_target_positions=40,
        pad_token_id=ids["<|endoftext|>"], bos_token_id=ids["<|endoftext|>"], eos_token_id=ids["<|endoftext|>"],
        decoder_start_token_id=ids["<|startoftranscript|>"], suppress_tokens=None, begin_suppress_tokens=None)).eval()
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "encoder.embed_positions" not in name:
                spread = 0.6 if value.dim() > 1 else 0.2
                value.copy_((torch.randn(value.shape) * spread * 64).round() / 64 + ("layer_norm.weight" in name))
    said = {"decoder_start_token_id": ids["<|startoftranscript|>"], "eos_token_id": ids["<|endoftext|>"],
            "pad_token_id": ids["<|endoftext|>"], "bos_token_id": ids["<|endoftext|>"], "max_length": 40,
            "no_timestamps_token_id": ids["<|notimestamps|>"], "return_timestamps": False}
    if settings.get("suppress", True):
        said |= {"suppress_tokens": [1, 5, 9, *range(20, 60)], "begin_suppress_tokens": [220, ids["<|endoftext|>"], *range(60, 120)]}
    if settings.get("languages"):
        said |= {"is_multilingual": True, "lang_to_id": {text: ids[text] for text in SPECIAL[2:5]},
                 "task_to_id": {"transcribe": ids["<|transcribe|>"], "translate": ids["<|translate|>"]}}
    for name in ("language", "task"):
        if name in settings:
            said[name] = settings[name]
    if "forced_decoder_ids" in settings:
        said["forced_decoder_ids"] = [[i, ids[text] if text else None] for i, text in settings["forced_decoder_ids"]]
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    (folder / "generation_config.json").write_text(json.dumps(said, indent=1))
    extractor = transformers.WhisperFeatureExtractor(feature_size=20, chunk_length=2)
    extractor.save_pretrained(folder)
    transformers.PreTrainedTokenizerFast(tokenizer_object=tok, eos_token="<|endoftext|>").save_pretrained(folder)
    return transformers.WhisperForConditionalGeneration.from_pretrained(folder).eval(), extractor, tok, ids


def main():
    root = pathlib.Path(sys.argv[1]) / "sounds"
    root.mkdir(parents=True, exist_ok=True)
    sounds = {"mono16": write_wave(root / "mono16.wav", [tones(1)], 2), "stereo24": write_wave(root / "stereo24.wav", [tones(2), tones(3)], 3),
              "mono8": write_wave(root / "mono8.wav", [tones(4)], 1), "stereo_float": write_wave(root / "stereo_float.wav", [tones(5), tones(6)], 0)}
    for seed, (name, settings) in enumerate(FOLDERS.items()):
        model, extractor, tok, ids = make_folder(root / name, settings, seed)
        rows = []
        for sound, samples in list(sounds.items())[:4 if name == "many" else 2]:
            features = extractor(samples, sampling_rate=RATE, return_tensors="pt").input_features.to(model.dtype)
            for words, how in RUNS + (SPOKEN if settings.get("languages") else []):
                model.generation_config = transformers.GenerationConfig.from_pretrained(root / name)
                with torch.inference_mode():
                    out = model.generate(features, **how)[0].tolist()
                added = [i for i in out if i not in ids.values()]
                text = tok.decode([i for i in added if i < ids["<|notimestamps|>"]], skip_special_tokens=True)
                rows.append({"sound": f"{sound}.wav", "arguments": words, "tokens": added, "text": text})
        (root / name / "expected.json").write_text(json.dumps(rows, indent=1))
        print(name, rows[0], rows[1])


main()
