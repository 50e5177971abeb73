"""What differs between a file and a model: heads, siblings, leftovers, ties, types, layouts; and files in which nothing does."""

import re

import torch

import models
from situation import add, copy_of, plain, renamed, saved, with_prefix
from wrappings import metadata_under, tagged


def without(state, *ends):
    out = copy_of(state)
    for key in [key for key in out if key.endswith(ends)]:
        del out[key]
    return out


def add_heads_and_siblings():
    heads = [
        ("resnet18_37", "resnet18"),
        ("mobilenet_v2_37", "mobilenet_v2"),
        ("timm_vit_11", "timm_vit"),
        ("bert_vocabulary", "bert"),
        ("vit_large_image", "vit"),
        ("lenet_100", "lenet"),
        ("mlp_bn_9", "mlp_bn"),
    ]
    for file, model in heads:
        add(file, "other_head", saved(file), "for_shapes both_stdin error_pipe", model=model, expect="partial")
    add(
        "resnet18_37",
        "other_head_wrapped",
        saved("resnet18_37", lambda s: {"state_dict": with_prefix(s, "module.")}),
        "for_shapes both_stdin",
        model="resnet18",
        expect="partial",
    )
    siblings = [
        ("resnet34", "resnet18"),
        ("gpt2_4", "gpt2"),
        ("llama_3", "llama"),
        ("lstm_3_layers", "lstm"),
        ("attentive_4", "attentive"),
        ("vit_4", "vit"),
        ("resnet18", "resnet34"),
        ("resnet18_wide", "resnet18"),
        ("resnet50", "resnet18"),
        ("gpt2", "gpt2_4"),
    ]
    for file, model in siblings:
        tells = ["deep", "layers", "wide", "width", "depth", "other model", "another model", "sizes"]
        add(
            file,
            "for_" + model,
            saved(file),
            "for_shapes for_text both_stdin error_pipe",
            model=model,
            expect="no",
            tells=tells,
        )
    add(
        "resnet34",
        "wrapped_for_resnet18",
        saved("resnet34", lambda s: with_prefix(s, "module.")),
        "for_shapes both_stdin error_pipe",
        model="resnet18",
        expect="no",
    )
    for file, model in (
        ("resnet34", "resnet18"),
        ("wide_resnet50_2", "resnet50"),
        ("resnet50", "resnet18"),
        ("resnet18", "resnet34"),
        ("mobilenet_v3_small", "mobilenet_v3_large"),
        ("efficientnet_b1", "efficientnet_b0"),
        ("densenet169", "densenet121"),
        ("shufflenet_v2_x0_5", "shufflenet_v2_x1_0"),
        ("mnasnet0_5", "mnasnet1_0"),
        ("vgg13_bn", "vgg11_bn"),
    ):
        add(
            "known_" + file,
            "for_" + model,
            saved("known_" + file),
            "for_known both_stdin",
            model="known_" + model,
            known=model,
            expect="no",
            tells=[file],
        )
    add(
        "known_resnet18_10",
        "other_head",
        saved("known_resnet18_10"),
        "for_known alone",
        model="known_resnet18",
        known="resnet18",
        expect="partial",
    )
    for family in ("resnet18", "mobilenet_v2"):
        known = "known_" + family
        add(
            known,
            "data_parallel",
            saved(known, lambda s: with_prefix(s, "module.")),
            "for_known alone both_stdin",
            known=family,
            alone="fixable",
        )
        add(known, "good", saved(known), "for_known alone", known=family, expect="loads", alone="loads")
        add(
            known,
            "nested_on_gpu",
            tagged(known, lambda s: {"model": s, "epoch": 1}, "cuda:0"),
            "for_known alone",
            known=family,
            alone="fixable",
        )


def add_leftovers():
    counter = "num_batches_tracked"
    for family in ("resnet18", "unet", "mobilenet_v2"):
        add(
            family,
            "no_counters",
            saved(family, lambda s: without(s, counter)),
            "for_text both_stdin error_pipe",
            free=[counter],
        )
        add(
            family,
            "no_counters_plain",
            saved(family, lambda s: plain(without(s, counter))),
            "for_text",
            expect="loads",
            free=[counter],
        )
        add(
            family,
            "no_counters_wrapped",
            saved(family, lambda s: with_prefix(without(s, counter), "module.")),
            "for_text both_stdin error_pipe",
            free=[counter],
        )
    add(
        "resnet18",
        "no_counters",
        saved("resnet18", lambda s: without(s, counter), "safetensors"),
        "for_text",
        form="safetensors",
        expect="loads",
        free=[counter],
    )
    add(
        "resnet18",
        "fc_missing",
        saved("resnet18", lambda s: without(s, "fc.weight", "fc.bias")),
        "for_text both_stdin error_pipe",
        expect="partial",
    )
    add(
        "resnet18",
        "fc_missing_wrapped",
        saved("resnet18", lambda s: with_prefix(without(s, "fc.weight", "fc.bias"), "module.")),
        "for_text both_stdin error_pipe",
        expect="partial",
    )
    add(
        "resnet18",
        "parameters_only",
        saved("resnet18", lambda s: without(s, "running_mean", "running_var", counter)),
        "for_text both_stdin error_pipe",
        expect="partial",
    )
    add(
        "unet",
        "extra_head",
        saved("unet", lambda s: {**s, "aux.weight": torch.ones(2, 3), "aux.bias": torch.ones(2)}),
        "for_text both_stdin error_pipe",
    )
    add(
        "unet",
        "extra_head_on_wrapped",
        saved("unet", lambda s: with_prefix({**s, "aux.weight": torch.ones(2, 3)}, "module.")),
        "for_text both_stdin error_pipe",
    )

    def profiled(s):
        extra = {}
        for key in list(s)[::6]:
            module = key.rpartition(".")[0]
            extra[module + ".total_ops"] = extra[module + ".total_params"] = torch.zeros(1, dtype=torch.float64)
        return {**s, **extra}

    add("mobilenet_v2", "profiled", saved("mobilenet_v2", profiled), "for_text both_stdin error_pipe")
    add(
        "bert",
        "stale_position_ids",
        saved("bert", lambda s: {**s, "bert.embeddings.position_ids": torch.arange(14)[None]}),
        "for_text both_stdin error_pipe",
    )

    def old_masks(s):
        extra = {}
        for layer in range(2):
            extra[f"transformer.h.{layer}.attn.bias"] = torch.ones(1, 1, 12, 12, dtype=torch.bool)
            extra[f"transformer.h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
        return {**s, **extra}

    add("gpt2", "stale_masks", saved("gpt2", old_masks), "for_text both_stdin")
    add(
        "swin",
        "no_position_index",
        saved("swin", lambda s: without(s, "relative_position_index")),
        "for_shapes for_file for_text both_stdin",
    )
    add(
        "swin",
        "no_position_index_told",
        saved("swin", lambda s: without(s, "relative_position_index")),
        "error_pipe",
        by_message="any",
        tells=["window"],
    )


def untied(state, key):
    """Without `key` and all other names of a tensor but the first."""
    seen, out = set(), {}
    for name, value in state.items():
        if name != key and value.data_ptr() not in seen:
            seen.add(value.data_ptr())
            out[name] = value
    return out


def add_ties():
    last = {
        "gpt2": "lm_head.weight",
        "llama": "lm_head.weight",
        "bert": "cls.predictions.decoder.weight",
        "t5": "lm_head.weight",
    }
    for family, key in last.items():
        add(
            family,
            "tied_key_missing",
            saved(family, lambda s, key=key: without(s, key)),
            "for_file for_text both_stdin",
            by_names="any",
            by_message="any",
        )

        add(
            family,
            "tied_key_missing",
            saved(family, lambda s, key=key: untied(s, key), "safetensors"),
            "for_file for_text both_stdin error_pipe",
            form="safetensors",
            by_names="any",
            by_message="any",
        )

        def dropped(family=family):
            from safetensors.torch import save_model

            model = models.build(family)
            model.load_state_dict(models.trained(family))
            save_model(model, "best.safetensors", metadata={"format": "pt"})

        add(
            family,
            "save_model",
            dropped,
            "for_file for_text both_stdin error_pipe",
            form="safetensors",
            by_names="any",
            by_message="any",
        )

    def dropped_branch():
        from safetensors.torch import save_model

        model = models.build("siamese")
        model.load_state_dict(models.trained("siamese"))
        save_model(model, "best.safetensors")

    add("siamese", "save_model", dropped_branch, "for_file both_stdin", form="safetensors", by_message="any")
    add(
        "siamese",
        "one_branch",
        saved("siamese", lambda s: {k: v for k, v in s.items() if not k.startswith("right.")}),
        "for_file both_stdin",
        by_message="any",
    )


def add_types():
    for dtype in ("float16", "bfloat16", "float64"):
        for family in ("lenet", "vit"):
            half = saved(
                family, lambda s, d=dtype: {k: v.to(getattr(torch, d)) if v.is_floating_point() else v for k, v in s.items()}
            )
            add(family, dtype, half, "for_file", expect="loads", through=dtype)
    add(
        "llama",
        "bfloat16_wrapped",
        saved("llama", lambda s: {"module." + k: v.bfloat16() for k, v in s.items()}),
        "for_text both_stdin",
        through="bfloat16",
    )
    add(
        "lenet",
        "bfloat16",
        saved("lenet", lambda s: {k: v.bfloat16() for k, v in s.items()}, "safetensors"),
        "for_text",
        form="safetensors",
        expect="loads",
        through="bfloat16",
    )
    for tag in ("cuda:0", "cuda:3", "mps"):
        for form in ("zip", "legacy"):
            family = "unet" if form == "zip" else "lstm"
            modes = "for_text both_stdin error_pipe alone" if tag == "cuda:3" else "for_text alone"
            add(family, "on_" + tag.replace(":", ""), tagged(family, lambda s: s, tag, form), modes, form=form, alone="fixable")
    add(
        "temperature",
        "scalar_as_one_element",
        saved("temperature", lambda s: {**s, "logit_scale": s["logit_scale"].reshape(1)}),
        "for_shapes for_file",
        expect="loads",
    )
    add("temperature", "wrapped", saved("temperature", lambda s: metadata_under(s, "module.")), "for_text both_stdin")
    add(
        "temperature",
        "saved_mask",
        saved("temperature", lambda s: {**s, "mask": torch.zeros(4, 4)}),
        "for_text both_stdin error_pipe",
    )
    add("styled", "wrapped", saved("styled", lambda s: with_prefix(s, "module.")), "for_text both_stdin error_pipe")
    add(
        "styled",
        "no_counters",
        saved("styled", lambda s: without(s, "num_batches_tracked")),
        "for_text both_stdin",
        free=["num_batches_tracked"],
    )
    add(
        "styled",
        "no_counters_plain",
        saved("styled", lambda s: plain(without(s, "num_batches_tracked"))),
        "for_text",
        expect="loads",
        free=["num_batches_tracked"],
    )
    add(
        "discriminator",
        "wrapped",
        saved("discriminator", lambda s: with_prefix(s, "module.")),
        "for_text both_stdin error_pipe",
        by_message="any",
    )  # PyTorch's text names a key that the model does not have

    def as_arrays(s):
        return {key: value.numpy() for key, value in s.items()}

    add("mlp_bn", "numpy_arrays", saved("mlp_bn", as_arrays), "for_text both_stdin error_pipe", expect="any")
    add(
        "mlp_bn",
        "parameters",
        saved("mlp_bn", lambda s: {k: torch.nn.Parameter(v) if v.is_floating_point() else v for k, v in s.items()}),
        "for_text alone",
        expect="loads",
        alone="loads",
    )


def add_layouts():
    names = {"weight_g": "parametrizations.weight.original0", "weight_v": "parametrizations.weight.original1"}
    back = {new: old for old, new in names.items()}

    def swap(table):
        return lambda key: next((key.removesuffix(old) + new for old, new in table.items() if key.endswith(old)), key)

    add(
        "wave_old",
        "new_weight_norm_wrapped",
        saved("wave_old", lambda s: with_prefix(renamed(s, swap(names)), "module.")),
        "for_text for_shapes both_stdin error_pipe",
    )
    add(
        "wave_new",
        "old_weight_norm_wrapped",
        saved("wave_new", lambda s: with_prefix(renamed(s, swap(back)), "module.")),
        "for_text both_stdin error_pipe",
    )
    add("wave_new", "old_weight_norm", saved("wave_new", lambda s: renamed(s, swap(back))), "for_text both_stdin", expect="any")
    add("wave_old", "new_weight_norm", saved("wave_old", lambda s: renamed(s, swap(names))), "for_text both_stdin error_pipe")

    def transpose(keys):
        return lambda s: {k: v.t().contiguous() if re.search(keys, k) else v for k, v in s.items()}

    add(
        "gpt2",
        "linear_for_conv1d",
        saved("gpt2", transpose(r"c_(attn|fc|proj)\.weight")),
        "for_shapes for_file both_stdin",
        expect="any",
    )
    add("lenet", "fc_transposed", saved("lenet", transpose(r"fc\d\.weight")), "for_shapes both_stdin error_pipe")
    add(
        "lenet",
        "fc_as_convolution",
        saved("lenet", lambda s: {**s, "fc1.weight": s["fc1.weight"].reshape(12, 8, 4, 4)}),
        "for_shapes both_stdin",
    )

    def split_qkv(s):
        out = {}
        for key, value in s.items():
            if ".qkv." not in key:
                out[key] = value
                continue
            for name, part in zip(("q", "k", "v"), value.chunk(3)):
                out[key.replace(".qkv.", f".{name}_proj.")] = part.clone()
        return out

    add(
        "lenet_fcn",
        "convolution_as_fc",
        saved("lenet_fcn", lambda s: {**s, "fc1.weight": s["fc1.weight"].flatten(1)}),
        "for_shapes both_stdin",
    )
    add(
        "unet",
        "kernel_of_one_as_linear",
        saved("unet", lambda s: {**s, "outc.weight": s["outc.weight"].flatten(1)}),
        "for_shapes for_file both_stdin error_pipe",
    )

    def split_in_proj(s):
        out = {}
        for key, value in s.items():
            if ".in_proj_" not in key:
                out[key] = value
                continue
            for name, part in zip(("q", "k", "v"), value.chunk(3)):
                out[key.replace(".in_proj_", f".{name}_proj.")] = part.clone()
        return out

    add("attentive", "split_in_proj", saved("attentive", split_in_proj), "for_shapes for_text both_stdin")
    add("timm_vit", "split_qkv", saved("timm_vit", split_qkv), "for_shapes for_file both_stdin")

    def fuse_qkv(s):
        out = {}
        for key, value in s.items():
            if ".query." in key:
                out[key.replace(".query.", ".qkv.")] = torch.cat(
                    [s[key.replace("query", n)] for n in ("query", "key", "value")]
                )
            elif ".key." not in key and ".value." not in key:
                out[key] = value
        return out

    add("bert_classifier", "fused_qkv", saved("bert_classifier", fuse_qkv), "for_shapes both_stdin")
    add(
        "bert",
        "gamma_and_beta",
        saved(
            "bert",
            lambda s: renamed(
                s,
                lambda k: re.sub(
                    r"LayerNorm\.(weight|bias)", lambda m: "LayerNorm." + {"weight": "gamma", "bias": "beta"}[m[1]], k
                ),
            ),
        ),
        "for_text both_stdin error_pipe",
    )
    add(
        "densenet",
        "norm_1",
        saved("densenet", lambda s: renamed(s, lambda k: re.sub(r"(denselayer\d+\.(?:norm|conv))(\d)", r"\1.\2", k))),
        "for_text both_stdin error_pipe",
    )

    def old_mlp(s):
        s = plain(s)
        return renamed(s, lambda k: re.sub(r"mlp\.(0|3)\.", lambda m: "mlp.linear_" + {"0": "1", "3": "2"}[m[1]] + ".", k))

    add("vit", "linear_1", saved("vit", old_mlp), "for_text", expect="any")

    def numbered(s):
        return {f"layers.{i // 2}.{k.rpartition('.')[2]}": v for i, (k, v) in enumerate(s.items())}

    add("lenet", "other_names", saved("lenet", numbered), "for_shapes", expect="any")
    add(
        "resnet18",
        "gray_input",
        saved("resnet18", lambda s: {**s, "conv1.weight": s["conv1.weight"].sum(1, keepdim=True)}),
        "for_shapes both_stdin error_pipe",
        expect="partial",
    )
    add("resnet18", "timm_names", saved("resnet18"), "for_text for_shapes", model="timm_resnet18", expect="loads")


def add_good_files():
    for family in ("resnet18", "gpt2", "lstm", "wave_new", "siamese", "styled", "discriminator", "t5"):
        add(family, "good", saved(family), "for_text for_file alone", expect="loads", alone="loads")
    for form in ("legacy", "safetensors"):
        for family in ("resnet18", "lstm"):
            add(family, "good", saved(family, form=form), "for_text alone", form=form, expect="loads", alone="loads")
    add("gru", "plain", saved("gru", plain), "for_shapes alone", expect="loads", alone="loads")
    add(
        "squeezenet",
        "other_order",
        saved("squeezenet", lambda s: dict(sorted(s.items(), reverse=True))),
        "for_text",
        expect="loads",
    )


def add_all():
    for part in (add_heads_and_siblings, add_leftovers, add_ties, add_types, add_layouts, add_good_files):
        part()
