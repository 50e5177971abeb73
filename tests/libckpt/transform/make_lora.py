#!/usr/bin/env python3
"""Makes tests/golden/lora.tar.xz with PEFT: small models, adapters of every kind that `ckpt lora` reads, and the weights
that PEFT merges them to. Usage: make_lora.py FOLDER (needs: pip install torch transformers peft safetensors)

FOLDER/lora/CASE/base.safetensors      the model before
FOLDER/lora/CASE/adapter/              as save_pretrained() writes it
FOLDER/lora/CASE/merged.safetensors    the weights after merge_and_unload(), names without those of PEFT
"""

import pathlib
import sys
import warnings

import torch
import transformers
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file

warnings.filterwarnings("ignore")


def gpt2():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=31, n_positions=4, n_embd=16, n_layer=1, n_head=2))


def llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=29, hidden_size=16, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2))


class Convolutions(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 8, 3)
        self.mix = torch.nn.Conv2d(8, 8, 1)
        self.table = torch.nn.Embedding(11, 6)
        self.square = torch.nn.Linear(8, 8)
        self.head = torch.nn.Linear(8, 5)


CASES = {
    "gpt2": (gpt2, torch.float32, {"r": 4, "lora_alpha": 7, "target_modules": ["c_attn", "c_proj"], "fan_in_fan_out": True}),
    "llama": (llama, torch.float32, {"r": 3, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj", "down_proj"]}),
    "bf16": (llama, torch.bfloat16, {"r": 4, "target_modules": "all-linear"}),
    "f16": (llama, torch.float16, {"r": 4, "target_modules": ["k_proj"]}),
    "f64": (llama, torch.float64, {"r": 4, "target_modules": ["o_proj"]}),
    "rslora": (llama, torch.float32, {"r": 5, "lora_alpha": 3, "use_rslora": True, "target_modules": ["up_proj"]}),
    "dora": (llama, torch.float32, {"r": 2, "use_dora": True, "target_modules": ["q_proj", "gate_proj"]}),
    "patterns": (llama, torch.float32, {
        "r": 4, "target_modules": ["q_proj", "k_proj", "v_proj"], "rank_pattern": {"v_proj": 2, "layers.1.self_attn.q_proj": 6},
        "alpha_pattern": {"layers.[01].self_attn.k_proj": 32, "v_proj": 5}}),
    "whole": (llama, torch.float32, {"r": 2, "target_modules": ["q_proj"], "modules_to_save": ["lm_head"]}),
    "embedding": (llama, torch.float32, {"r": 2, "target_modules": ["embed_tokens", "q_proj"]}),
    "tied": (gpt2, torch.float32, {"r": 2, "target_modules": ["wte"], "fan_in_fan_out": False}),
    "convolutions": (Convolutions, torch.float32, {"r": 3, "target_modules": ["stem", "mix", "table", "square"],
                                                   "modules_to_save": ["head"]}),
    "convolutions_dora": (Convolutions, torch.float32, {"r": 3, "use_dora": True, "target_modules": ["stem", "mix", "square"]}),
    "biases": (Convolutions, torch.float32, {"r": 2, "bias": "lora_only", "target_modules": ["square"]}),
}


def state_of(model):
    """Each memory once, as safetensors wants it."""
    state, seen = {}, set()
    for name, tensor in model.state_dict().items():
        if tensor.data_ptr() in seen:
            continue
        seen.add(tensor.data_ptr())
        state[name] = tensor.contiguous()
    return state


def main():
    folder = pathlib.Path(sys.argv[1]) / "lora"
    for number, (name, (make, dtype, arguments)) in enumerate(CASES.items()):
        torch.manual_seed(number)
        case = folder / name
        case.mkdir(parents=True, exist_ok=True)
        model = make().to(dtype)
        save_file(state_of(model), case / "base.safetensors")
        model = get_peft_model(model, LoraConfig(**arguments))
        for key, parameter in model.named_parameters():
            if parameter.requires_grad:  # as training would leave them
                parameter.data += 0.1 * torch.randn_like(parameter)
        model.save_pretrained(case / "adapter")
        (case / "adapter" / "README.md").unlink(missing_ok=True)
        save_file(state_of(model.merge_and_unload()), case / "merged.safetensors")


main()
