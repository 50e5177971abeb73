"""Makes tests/golden/megatron.tar.xz: folders as Megatron-LM writes them. A model is cut as Megatron-LM cuts it over tensor-parallel
ranks and pipeline stages (the layouts of megatron/core/tensor_parallel/layers.py, megatron/core/transformer and
_transpose_first_dim in megatron/training/checkpointing.py) and saved as save_checkpoint() saves it with
--ckpt-format torch. Every case is a folder: in/ and joined.safetensors, the model before it was cut.
Use: python make_megatron.py FOLDER (needs torch and safetensors)"""

import argparse
import os
import re
import sys

import torch
from safetensors.torch import save_file

HEADS, SIZE, LAYERS, FFN, VOCAB, POSITIONS = 8, 2, 4, 24, 24, 4
HIDDEN = HEADS * SIZE
INNER, GROUPS, STATE, MAMBA_HEADS = 12, 2, 3, 6  # of Mamba's mixers


def core_model(gated, tied, dtype):
    """The names of Megatron Core's GPTModel."""
    def some(*shape):
        return torch.randint(-100, 100, shape).to(dtype)

    model = {"embedding.word_embeddings.weight": some(VOCAB, HIDDEN),
             "embedding.position_embeddings.weight": some(POSITIONS, HIDDEN)}
    for i in range(LAYERS):
        at = f"decoder.layers.{i}."
        model[at + "self_attention.linear_proj.weight"] = some(HIDDEN, HIDDEN)
        model[at + "self_attention.linear_proj.bias"] = some(HIDDEN)
        model[at + "self_attention.linear_qkv.layer_norm_weight"] = some(HIDDEN)
        model[at + "self_attention.linear_qkv.weight"] = some(3 * HIDDEN, HIDDEN)
        model[at + "self_attention.linear_qkv.bias"] = some(3 * HIDDEN)
        model[at + "pre_mlp_layernorm.weight"] = some(HIDDEN)
        model[at + "mlp.linear_fc1.weight"] = some(FFN * (2 if gated else 1), HIDDEN)
        model[at + "mlp.linear_fc1.bias"] = some(FFN * (2 if gated else 1))
        model[at + "mlp.linear_fc2.weight"] = some(HIDDEN, FFN)
        model[at + "mlp.linear_fc2.bias"] = some(HIDDEN)
        model[at + "mlp.some_scale"] = some(3)  # no rule knows it, and all ranks have the same
    model["decoder.final_layernorm.weight"] = some(HIDDEN)
    if not tied:
        model["output_layer.weight"] = some(VOCAB, HIDDEN)
    return model


def expert_model(dtype, gated, grouped, number):
    """Mixtures of experts and Mamba's mixers, as Megatron Core names them."""
    def some(*shape):
        return torch.randint(-100, 100, shape).to(dtype)

    model = {"embedding.word_embeddings.weight": some(VOCAB, HIDDEN)}
    for i in range(LAYERS):
        at = f"decoder.layers.{i}."
        if i % 2:
            model[at + "mixer.dt_bias"] = some(MAMBA_HEADS)
            model[at + "mixer.A_log"] = some(MAMBA_HEADS)
            model[at + "mixer.D"] = some(MAMBA_HEADS)
            model[at + "mixer.in_proj.layer_norm_weight"] = some(HIDDEN)
            model[at + "mixer.in_proj.weight"] = some(2 * INNER + 2 * GROUPS * STATE + MAMBA_HEADS, HIDDEN)
            model[at + "mixer.conv1d.weight"] = some(INNER + 2 * GROUPS * STATE, 1, 4)
            model[at + "mixer.conv1d.bias"] = some(INNER + 2 * GROUPS * STATE)
            model[at + "mixer.norm.weight"] = some(INNER)
            model[at + "mixer.out_proj.weight"] = some(HIDDEN, INNER)
            continue
        model[at + "mlp.router.weight"] = some(number, HIDDEN)
        model[at + "mlp.router.expert_bias"] = some(number)
        model[at + "mlp.shared_experts.linear_fc1.weight"] = some(FFN * (2 if gated else 1), HIDDEN)
        model[at + "mlp.shared_experts.linear_fc2.weight"] = some(HIDDEN, FFN)
        for expert in range(number):
            first, second = (f"experts.linear_fc1.weight{expert}", f"experts.linear_fc2.weight{expert}") if grouped else (
                f"experts.local_experts.{expert}.linear_fc1.weight", f"experts.local_experts.{expert}.linear_fc2.weight")
            model[at + "mlp." + first] = some(FFN * (2 if gated else 1), HIDDEN)
            model[at + "mlp." + second] = some(HIDDEN, FFN)
    model["decoder.final_norm.weight"] = some(HIDDEN)
    return model


def own_experts(part, rank, ranks, number):
    """Those of one rank, numbered from 0."""
    each, out = number // ranks, {}
    for name, value in part.items():
        found = re.search(r"(?<=local_experts\.)\d+|(?<=experts\.linear_fc[12]\.weight)\d+", name)
        if found is None:
            out[name] = value
        elif int(found[0]) // each == rank:
            out[name[:found.start()] + str(int(found[0]) % each) + name[found.end():]] = value
    return out


def old_model(dtype):
    """The names of the models before it, with the order of heads of checkpoint_version 2 and above."""
    def some(*shape):
        return torch.randint(-100, 100, shape).to(dtype)

    top = "language_model."
    model = {top + "embedding.word_embeddings.weight": some(VOCAB, HIDDEN),
             top + "embedding.position_embeddings.weight": some(POSITIONS, HIDDEN)}
    for i in range(LAYERS):
        at = f"{top}transformer.layers.{i}."
        model[at + "input_layernorm.weight"] = some(HIDDEN)
        model[at + "attention.query_key_value.weight"] = some(3 * HIDDEN, HIDDEN)
        model[at + "attention.query_key_value.bias"] = some(3 * HIDDEN)
        model[at + "attention.dense.weight"] = some(HIDDEN, HIDDEN)
        model[at + "attention.dense.bias"] = some(HIDDEN)
        model[at + "mlp.dense_h_to_4h.weight"] = some(FFN, HIDDEN)
        model[at + "mlp.dense_h_to_4h.bias"] = some(FFN)
        model[at + "mlp.dense_4h_to_h.weight"] = some(HIDDEN, FFN)
        model[at + "mlp.dense_4h_to_h.bias"] = some(HIDDEN)
    model[top + "transformer.final_layernorm.weight"] = some(HIDDEN)
    return model


def cut(name, value, rank, ranks, gated, version):
    name = re.sub(r"(?<=weight)\d+$", "", name)
    if ".mixer." in name:
        if name.endswith(("in_proj.weight", "conv1d.weight", "conv1d.bias")):
            sizes = [INNER, INNER, GROUPS * STATE, GROUPS * STATE, MAMBA_HEADS]
            sizes = sizes if "in_proj" in name else sizes[1:4]
            return torch.cat([section.chunk(ranks)[rank] for section in value.split(sizes)])
        if name.endswith("out_proj.weight"):
            return value.chunk(ranks, dim=1)[rank].clone()
        return value.clone() if "layer_norm" in name else value.chunk(ranks)[rank].clone()
    column = ("linear_qkv.weight", "linear_qkv.bias", "word_embeddings.weight", "output_layer.weight")
    first = ("linear_fc1.weight", "linear_fc1.bias", "dense_h_to_4h.weight", "dense_h_to_4h.bias")
    row = ("linear_proj.weight", "linear_fc2.weight", "attention.dense.weight", "dense_4h_to_h.weight")
    if name.endswith(first) and gated:
        return torch.cat([half.chunk(ranks)[rank] for half in value.chunk(2)])
    if name.endswith(column + first):
        return value.chunk(ranks)[rank].clone()
    if name.endswith(row):
        return value.chunk(ranks, dim=1)[rank].clone()
    if ".query_key_value." in name:
        own = value.chunk(ranks)[rank]  # [heads, 3, size]
        heads = own.reshape(HEADS // ranks, 3, SIZE, *own.shape[1:])
        if version == 0:
            return heads.transpose(0, 1).reshape(own.shape).clone()  # [3, heads, size]
        if version == 1.0:
            return heads.transpose(1, 2).reshape(own.shape).clone()  # [heads, size, 3]
        return own.clone()
    return value.clone()


def chunk_of(model, layers, first, last):
    """The tensors of some layers, numbered from 0; with what the first and last stages have."""
    out = {}
    for name, value in model.items():
        if ".layers." in name:
            before, behind = name.split(".layers.")
            number, rest = behind.split(".", 1)
            if int(number) in layers:
                out[f"{before}.layers.{int(number) - layers[0]}.{rest}"] = value
        elif "embedding." in name:
            if first:
                out[name] = value
        elif last:
            out[name] = value
    return out


def nested(flat):
    """language_model, embedding, ... as dicts, with flat names of layers, as state_dict_for_save_checkpoint() has it."""
    out = {}
    for name, value in flat.items():
        parts = name.split(".", 2)
        if parts[1] == "embedding":
            parts = name.split(".", 3)
        at = out
        for part in parts[:-1]:
            at = at.setdefault(part, {})
        at[parts[-1]] = value
    return out


def write(root, model, tensor, stages=1, turns=1, gated=False, tied=True, version=3.0, old=False, experts=1,
          number=0, grouped=False):
    step = os.path.join(root, "in", "iter_0000100")
    args = argparse.Namespace(tensor_model_parallel_size=tensor, pipeline_model_parallel_size=stages,
                              num_attention_heads=HEADS, num_layers=LAYERS, swiglu=gated,
                              untie_embeddings_and_output_weights=not tied, padded_vocab_size=VOCAB)
    if number:
        args.num_experts, args.expert_model_parallel_size = number, experts
    if old:
        args = argparse.Namespace(model_parallel_size=tensor, num_attention_heads=HEADS, num_layers=LAYERS)
    each = LAYERS // stages // turns
    for stage, expert in ((stage, expert) for stage in range(stages) for expert in range(experts)):
        for rank in range(tensor):
            state = {"args": args, "iteration": 100, "rng_state": [{"np_rng_state": (1, 2)}]}
            if version:
                state["checkpoint_version"] = version
            for turn in range(turns):
                begin = (turn * stages + stage) * each
                last = stage == stages - 1 and turn == turns - 1
                part = chunk_of(model, list(range(begin, begin + each)), stage == 0 and turn == 0, last)
                if number:
                    part = own_experts(part, expert, experts, number)
                part = {k: cut(k, v, rank, tensor, gated, version) for k, v in part.items()}
                if last and stages > 1 and tied:
                    part["output_layer.weight"] = model["embedding.word_embeddings.weight"].chunk(tensor)[rank].clone()
                part["decoder.layers.0.mlp.linear_fc1._extra_state"] = None
                if old:
                    part.pop("decoder.layers.0.mlp.linear_fc1._extra_state")
                    part = nested(part)
                state["model" if turns == 1 else f"model{turn}"] = part
            folder = os.path.join(step, f"mp_rank_{rank:02d}" + (f"_{stage:03d}" if stages > 1 else "") +
                                  (f"_{expert:03d}" if experts > 1 else ""))
            os.makedirs(folder)
            torch.save(state, os.path.join(folder, "model_optim_rng.pt"))
    with open(os.path.join(root, "in", "latest_checkpointed_iteration.txt"), "w") as out:
        out.write("100")
    save_file(model, os.path.join(root, "joined.safetensors"))


def main():
    torch.manual_seed(0)
    for name, dtype, ways in (
        ("one", torch.float32, {"tensor": 1}),
        ("two", torch.float32, {"tensor": 2}),
        ("four_gated", torch.bfloat16, {"tensor": 4, "gated": True, "tied": False}),
        ("stages", torch.float16, {"tensor": 2, "stages": 2}),
        ("stages_untied", torch.float32, {"tensor": 1, "stages": 4, "tied": False}),
        ("turns", torch.float32, {"tensor": 2, "stages": 2, "turns": 2, "gated": True}),
        ("experts", torch.float32, {"tensor": 1, "experts": 2, "number": 4, "gated": True}),
        ("experts_stages", torch.bfloat16, {"tensor": 2, "stages": 2, "experts": 2, "number": 6, "grouped": True}),
        ("experts_tensor", torch.float16, {"tensor": 2, "experts": 4, "number": 4, "gated": True, "grouped": True}),
        ("mixers", torch.float32, {"tensor": 2, "number": 2}),
        ("version_0", torch.float16, {"tensor": 2, "version": 0, "old": True}),
        ("version_1", torch.float32, {"tensor": 4, "version": 1.0, "old": True}),
        ("version_2", torch.float32, {"tensor": 2, "version": 2.0, "old": True}),
    ):
        old = ways.get("old", False)
        model = old_model(dtype) if old else expert_model(
            dtype, ways.get("gated", False), ways.get("grouped", False), ways["number"]) if "number" in ways else core_model(ways.get("gated", False), ways.get("tied", True), dtype)
        write(os.path.join(sys.argv[1], name), model, **ways)


main()
