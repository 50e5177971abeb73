"""Pairs of models of two projects whose weights are the same under other names, for the test of align.

    OMP_NUM_THREADS=1 python make_align_cases.py OUT/align/cases.json
    tar -C OUT --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -cJf tests/golden/align.tar.xz align

Needs torch, torchvision, timm and transformers. Nothing is downloaded. Each map of names is proved: weights drawn at
random are loaded under the other names, strictly, and both models must give the same outputs in float64.

A case has
  a     [name, shape, dtype, values] of every tensor of the source in the order of its state dict. `values` is what a
        fresh model has there: "random", a number (all elements), "same as NAME", or "tied to NAME" (the same memory).
  b     [name, operation, name in a, and what the operation needs] of the target in the order of its state dict:
        "same", "transpose", "reshape" with a shape, "rows" with the first and the last row + 1, "tied" to another name
        of b.
Sizes are replaced by small ones, equal sizes by equal ones.
"""
import json
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import timm
import torch
import torchvision
import transformers
from timm.models.vision_transformer import VisionTransformer as TimmViT
from torch import nn

TV = torchvision.models
VIT = dict(image_size=32, patch_size=8, num_layers=12, num_heads=4, hidden_dim=48, mlp_dim=192, num_classes=10)
GPT = dict(n_embd=48, n_layer=12, n_head=4, vocab_size=97)


# What a fresh model holds.

def kinds_of(state):
    """Of each tensor: "random", a number, "same as NAME", "tied to NAME"."""
    out, seen, places = {}, {}, {}
    for name, t in state.items():
        place = (t.data_ptr(), tuple(t.shape), t.stride())
        flat = t.reshape(-1)
        if place in places and t.numel() > 0:
            out[name] = "tied to " + places[place]
        elif t.numel() == 0 or bool((flat == flat[0]).all()):
            out[name] = flat[0].item() if t.numel() else 0
        else:
            content = (str(t.dtype), t.detach().numpy().tobytes())
            out[name] = "same as " + seen[content] if content in seen else "random"
            seen.setdefault(content, name)
        places.setdefault(place, name)
    return out


def randomise(model, seed):
    """Other values everywhere, so that a wrong map cannot pass for a right one."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, t in model.state_dict().items():
            if not t.dtype.is_floating_point:
                continue
            if name.endswith("running_var") or (t.ndim == 1 and name.endswith(("weight", "gamma"))):
                t.copy_(1 + 0.2 * torch.rand(t.shape, generator=g))
            elif t.ndim > 1 and not name.endswith(("embed", "embedding", "embeddings", "token", "wte.weight", "wpe.weight")):
                t.copy_(torch.randn(t.shape, generator=g) * (1.5 / t[0].numel()) ** 0.5)
            else:
                t.copy_(0.2 * torch.randn(t.shape, generator=g))


# Maps of names.

def converted(pairs, state, target):
    out = {}
    for to, how, source, *rest in pairs:
        if how == "tied":
            out[to] = out[source]
            continue
        t = state[source]
        t = t.t() if how == "transpose" else t[rest[0]:rest[1]] if how == "rows" else t
        out[to] = t.reshape(target[to].shape).contiguous() if how == "reshape" else t.contiguous()
    return out


def renamed(name_of):
    return lambda a, b: [[name_of(k), "same", k] for k in a]


def by_order(a, b):
    """The same order of modules in both; sizes may differ in dimensions of size 1."""
    assert len(a) == len(b)
    return [[y, "same" if a[x].shape == b[y].shape else "reshape", x] for x, y in zip(a, b)]


def resnet_to_hf(key):
    x = key.split(".")
    if x[0] in ("conv1", "bn1"):
        return "resnet.embedder.embedder." + ("convolution." if x[0] == "conv1" else "normalization.") + x[1]
    if x[0] == "fc":
        return "classifier.1." + x[1]
    head = "resnet.encoder.stages.%d.layers.%s." % (int(x[0][5:]) - 1, x[1])
    if x[2] == "downsample":
        return head + "shortcut." + ("convolution." if x[3] == "0" else "normalization.") + x[4]
    return head + "layer.%d." % (int(x[2][-1]) - 1) + ("convolution." if x[2].startswith("conv") else "normalization.") + x[3]


def vit_to_timm(key):
    for old, new in (("encoder.layers.encoder_layer_", "blocks."), ("encoder.pos_embedding", "pos_embed"), ("class_token", "cls_token"),
                     ("conv_proj", "patch_embed.proj"), ("ln_1", "norm1"), ("ln_2", "norm2"), ("self_attention.in_proj_", "attn.qkv."),
                     ("self_attention.out_proj", "attn.proj"), ("mlp.0", "mlp.fc1"), ("mlp.3", "mlp.fc2"), ("encoder.ln", "norm"), ("heads.head", "head")):
        key = key.replace(old, new)
    return key


def vit_to_hf_files(a, _):
    """The names in files: those of the live module of release 5 are others."""
    out, width = [], VIT["hidden_dim"]
    for key in a:
        if "in_proj_" in key:
            head, leaf = key.split("self_attention.in_proj_")
            head = head.replace("encoder.layers.encoder_layer_", "vit.encoder.layer.") + "attention.attention."
            for n, part in enumerate(("query", "key", "value")):
                out.append([head + part + "." + leaf, "rows", key, n * width, (n + 1) * width])
            continue
        to = key
        for old, new in (("encoder.layers.encoder_layer_", "vit.encoder.layer."), ("encoder.pos_embedding", "vit.embeddings.position_embeddings"),
                         ("class_token", "vit.embeddings.cls_token"), ("conv_proj", "vit.embeddings.patch_embeddings.projection"),
                         ("ln_1", "layernorm_before"), ("ln_2", "layernorm_after"), ("self_attention.out_proj", "attention.output.dense"),
                         ("mlp.0", "intermediate.dense"), ("mlp.3", "output.dense"), ("encoder.ln", "vit.layernorm"), ("heads.head", "classifier")):
            to = to.replace(old, new)
        out.append([to, "same", key])
    # The order of the library's modules: attention, then the perceptron, then both norms.
    ranks = ("attention.attention", "attention.output", "intermediate", "output", "layernorm_before", "layernorm_after")
    places = {"vit.embeddings": 0, "vit.encoder": 1, "vit.layernorm": 2, "classifier": 3}

    def place(pair):
        x = pair[0].split(".")
        layer = int(x[3]) if x[1] == "encoder" else 0
        rank = next((n for n, r in enumerate(ranks) if x[1] == "encoder" and ".".join(x[4:]).startswith(r)), 0)
        return places[".".join(x[:2]) if x[0] == "vit" else x[0]], layer, rank
    return sorted(out, key=place)


def gpt2_to_nanogpt(a, b):
    turned = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")
    return [[k, "transpose" if k.endswith(turned) else "same", k] if k != "lm_head.weight" else [k, "tied", "transformer.wte.weight"] for k in a]


class NanoGPT(nn.Module):
    """The names and layout of nanoGPT."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            n = GPT["n_embd"]
            self.ln_1 = nn.LayerNorm(n)
            self.attn = nn.ModuleDict(dict(c_attn=nn.Linear(n, 3 * n), c_proj=nn.Linear(n, n)))
            self.ln_2 = nn.LayerNorm(n)
            self.mlp = nn.ModuleDict(dict(c_fc=nn.Linear(n, 4 * n), c_proj=nn.Linear(4 * n, n)))

        def forward(self, x):
            B, T, C = x.shape
            q, k, v = (t.view(B, T, GPT["n_head"], -1).transpose(1, 2) for t in self.attn["c_attn"](self.ln_1(x)).split(C, 2))
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, C)
            x = x + self.attn["c_proj"](y)
            return x + self.mlp["c_proj"](nn.functional.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh"))

    def __init__(self):
        super().__init__()
        n, vocabulary = GPT["n_embd"], GPT["vocab_size"]
        self.transformer = nn.ModuleDict(dict(wte=nn.Embedding(vocabulary, n), wpe=nn.Embedding(32, n),
                                              h=nn.ModuleList(self.Block() for _ in range(GPT["n_layer"])), ln_f=nn.LayerNorm(n)))
        self.lm_head = nn.Linear(n, vocabulary, bias=False)
        self.lm_head.weight = self.transformer["wte"].weight

    def forward(self, ids):
        t = self.transformer
        x = t["wte"](ids) + t["wpe"](torch.arange(ids.shape[1]))
        for block in t["h"]:
            x = block(x)
        return self.lm_head(t["ln_f"](x))


def swin_to_timm(a, _):
    """timm puts the merging of patches at the start of the following stage."""
    out = []
    for key in a:
        x = key.split(".")
        if key.endswith("relative_position_index"):
            continue
        if x[0] == "features" and x[1] == "0":
            to = "patch_embed." + ("proj." if x[2] == "0" else "norm.") + x[3]
        elif x[0] == "features" and int(x[1]) % 2:
            to = "layers.%d.blocks.%s." % (int(x[1]) // 2, x[2]) + ".".join(x[3:]).replace("mlp.0.", "mlp.fc1.").replace("mlp.3.", "mlp.fc2.")
        elif x[0] == "features":
            to = "layers.%d.downsample." % (int(x[1]) // 2) + ".".join(x[2:])
        else:
            to = key.replace("head.", "head.fc.")
        out.append([to, "same", key])
    return out


def convnext_to_timm(a, b):
    out = []
    for key in a:
        x = key.split(".")
        if x[0] == "classifier":
            to = ("head.norm." if x[1] == "0" else "head.fc.") + x[2]
        elif x[1] == "0":
            to = "stem.%s.%s" % (x[2], x[3])
        elif int(x[1]) % 2 == 0:
            to = "stages.%d.downsample.%s.%s" % (int(x[1]) // 2, x[2], x[3])
        else:
            leaf = "gamma" if x[3] == "layer_scale" else {"0": "conv_dw.", "2": "norm.", "3": "mlp.fc1.", "5": "mlp.fc2."}[x[4]] + x[5]
            to = "stages.%d.blocks.%s." % (int(x[1]) // 2, x[2]) + leaf
        out.append([to, "same" if a[key].shape == b[to].shape else "reshape", key])
    return out


def regnet_to_timm(key):
    x = key.split(".")
    if x[0] == "stem":
        return "stem." + ("conv." if x[1] == "0" else "bn.") + x[2]
    if x[0] == "fc":
        return "head.fc." + x[1]
    stage, block = x[2][5:].split("-")
    head = "s%s.b%d." % (stage, int(block) + 1)
    if x[3] == "proj":
        return head + "downsample." + ("conv." if x[4] == "0" else "bn.") + x[5]
    if x[4] == "se":
        return head + "se." + x[5] + "." + x[6]
    return head + "conv%d." % ("abc".index(x[4]) + 1) + ("conv." if x[5] == "0" else "bn.") + x[6]


# Proof and output.

def output_of(model, x):
    y = model.double().eval()(x.double() if x.dtype.is_floating_point else x)
    return y if isinstance(y, torch.Tensor) else y[0] if isinstance(y, tuple) else y.logits if "logits" in y else y.last_hidden_state


def hf_loaded(cls, config, state):
    """Through the library's own reader of files, which translates names."""
    import tempfile
    from safetensors.torch import save_file
    with tempfile.TemporaryDirectory() as d:
        config.save_pretrained(d)
        save_file({k: v.contiguous().clone() for k, v in state.items()}, os.path.join(d, "model.safetensors"), {"format": "pt"})
        model, info = cls.from_pretrained(d, output_loading_info=True)
        assert not info["missing_keys"] and not info["unexpected_keys"], info
        return model


def rows_of(state, kinds, sizes):
    dtypes = {torch.float32: "f32", torch.int64: "i64"}
    return [[k, [sizes.get(d, d) for d in t.shape], dtypes[t.dtype], kinds[k]] for k, t in state.items()]


class Writer:
    def __init__(self):
        self.cases = []

    def add(self, name, source, target, map_of, x, load=None, small=True):
        """`target` is a model, or the class and configuration of one that is read from a file."""
        torch.manual_seed(len(self.cases))
        a = source()
        fresh = a.state_dict()
        kinds = kinds_of(fresh)
        b = target() if load is None else None
        pairs = map_of(fresh, b.state_dict() if b is not None else None)
        randomise(a, 1)
        new = converted(pairs, a.state_dict(), b.state_dict() if b is not None else None)
        if load is None:
            b.load_state_dict(new, strict=True)
            order = {k: n for n, k in enumerate(b.state_dict())}
            pairs = sorted(pairs, key=lambda p: order[p[0]])
        else:
            b = hf_loaded(*load, {p[0]: new[p[0]] for p in pairs if p[1] != "tied"})
        with torch.no_grad():
            p, q = output_of(a, x), output_of(b, x)
        gap = (p - q).abs().max().item()
        assert gap < 1e-8 * max(1.0, p.abs().max().item()), (name, gap)
        sizes = {}
        if small:  # no rows are cut out: any other sizes will do
            for size in sorted({d for t in fresh.values() for d in t.shape if d > 8}):
                sizes[size] = 9 + len(sizes)
        for pair in pairs:
            if pair[1] == "reshape":
                pair.append([sizes.get(d, d) for d in new[pair[0]].shape])
        self.cases.append(dict(name=name, a=rows_of(fresh, kinds, sizes), b=pairs))
        constants = sum(k != "random" for k in kinds.values())
        print("%-32s %4d tensors, %4d of them prove nothing, outputs differ by %.1e" % (name, len(fresh), constants, gap), flush=True)


def prefixed(prefix):
    return renamed(lambda k: prefix + k)


def hf_resnet(layers, kind):
    sizes = [64, 128, 256, 512] if kind == "basic" else [256, 512, 1024, 2048]
    config = transformers.ResNetConfig(num_labels=1000, depths=layers, hidden_sizes=sizes, layer_type=kind)
    return transformers.ResNetForImageClassification, config


def main():
    w = Writer()
    image = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(5))
    small = image[:, :, :32, :32]
    ids = torch.randint(0, GPT["vocab_size"], (2, 12), generator=torch.Generator().manual_seed(6))
    for depth, layers, kind in ((18, [2, 2, 2, 2], "basic"), (50, [3, 4, 6, 3], "bottleneck")):
        make = getattr(TV, "resnet%d" % depth)
        name = "resnet%d" % depth
        w.add(name + "_module", make, lambda: nn.DataParallel(make()), prefixed("module."), image)
        w.add(name + "_timm", make, lambda: timm.create_model(name), by_order, image)
        cls, config = hf_resnet(layers, kind)
        live = [k for k in cls(config).state_dict()]

        def to_hf(a, _):
            return sorted([[resnet_to_hf(k), "same", k] for k in a], key=lambda p: live.index(p[0]))
        w.add(name + "_hf", make, None, to_hf, image, (cls, config))
    vit = lambda: TV.VisionTransformer(**VIT)
    timm_vit = lambda: TimmViT(img_size=32, patch_size=8, num_classes=10, embed_dim=48, depth=12, num_heads=4, mlp_ratio=4)
    w.add("vit_module", vit, lambda: nn.DataParallel(vit()), prefixed("module."), small, small=False)
    w.add("vit_timm", vit, timm_vit, renamed(vit_to_timm), small, small=False)
    w.add("vit_hf", vit, None, vit_to_hf_files, small,
          (transformers.ViTForImageClassification,
           transformers.ViTConfig(image_size=32, patch_size=8, hidden_size=48, num_hidden_layers=12, num_attention_heads=4, intermediate_size=192,
                                  num_labels=10, layer_norm_eps=1e-6)), small=False)
    config = transformers.GPT2Config(n_positions=32, **GPT)
    lm = lambda: transformers.GPT2LMHeadModel(config)
    w.add("gpt2_module", lm, lambda: nn.DataParallel(lm()), prefixed("module."), ids, small=False)
    w.add("gpt2_nanogpt", lm, NanoGPT, gpt2_to_nanogpt, ids, small=False)

    class Body(nn.Module):  # the names of a model without a head
        def __init__(self):
            super().__init__()
            self.transformer = transformers.GPT2Model(config)

        def forward(self, ids):
            return self.transformer(ids)
    w.add("gpt2_base_model", lambda: transformers.GPT2Model(config), Body, prefixed("transformer."), ids, small=False)
    encoder = lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(48, 4, 96, batch_first=True), 6, enable_nested_tensor=False)
    w.add("copied_layers_module", encoder, lambda: nn.DataParallel(encoder()), prefixed("module."), torch.randn(2, 5, 48), small=False)
    w.add("mobilenet_v2_timm", TV.mobilenet_v2, lambda: timm.create_model("mobilenetv2_100"), by_order, image)
    w.add("efficientnet_b0_timm", TV.efficientnet_b0, lambda: timm.create_model("efficientnet_b0"), by_order, image)
    w.add("regnet_y_400mf_timm", TV.regnet_y_400mf, lambda: timm.create_model("regnety_004"), renamed(regnet_to_timm), image)
    w.add("convnext_tiny_timm", TV.convnext_tiny, lambda: timm.create_model("convnext_tiny"), convnext_to_timm, image)
    w.add("swin_t_timm", TV.swin_t, lambda: timm.create_model("swin_tiny_patch4_window7_224"), swin_to_timm,
          torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(7)))
    os.makedirs(os.path.dirname(sys.argv[1]), exist_ok=True)
    with open(sys.argv[1], "w") as out:
        json.dump({"schema": "align-cases/1", "cases": w.cases}, out, separators=(",", ":"))


if __name__ == "__main__":
    main()
