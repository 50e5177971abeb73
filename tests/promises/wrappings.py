"""What is put around names and dicts: wrappers, prefixes, other dicts, devices."""

import argparse
import re
from collections import OrderedDict

import torch

import models
from situation import add, on_device, plain, renamed, saved, some_optimizer, with_prefix

BATCH_NORMS = ["resnet18", "mobilenet_v2", "unet", "densenet", "vgg11_bn", "efficientnet_b0"]
NESTED = "model.load_state_dict(torch.load('best.pth')[{!r}])"


def metadata_under(state, prefix):
    """What wrapper(model).state_dict() gives: names and versions below the prefix."""
    out = OrderedDict(with_prefix(state, prefix))
    out._metadata = OrderedDict({"": {"version": 1}})
    for path, entry in state._metadata.items():
        out._metadata[(prefix + path).rstrip(".")] = entry
    return out


def add_wrappers():
    for i, family in enumerate(BATCH_NORMS):
        whole = ["for_text both_stdin error_pipe", "for_shapes both_error error_file", "for_json traceback traceback_pipe"][
            i % 3
        ]
        add(family, "data_parallel", saved(family, lambda s: metadata_under(s, "module.")), whole + " alone", alone="fixable")
        add(family, "data_parallel_plain", saved(family, lambda s: with_prefix(s, "module.")), "both_error error_pipe for_text")
    for family in ("lenet", "llama", "lstm"):
        add(family, "data_parallel", saved(family, lambda s: metadata_under(s, "module.")), "for_file both_text")
    for form in ("legacy", "safetensors", "npz"):
        for family in ("resnet18", "mlp_bn"):
            modes = "for_text" if form == "npz" else "for_shapes both_stdin error_pipe"
            add(family, "data_parallel", saved(family, lambda s: with_prefix(s, "module."), form), modes, form=form)
    for family in ("resnet18", "vgg11_bn", "gpt2", "lenet", "mobilenet_v2"):
        add(family, "into_data_parallel", saved(family), "for_text both_stdin error_pipe", model="data_parallel " + family)
        add(
            family,
            "wrapped_all_told",
            saved(family, lambda s: {"state_dict": with_prefix(s, "module."), "epoch": 3}),
            "all_three for_printed",
        )
        if family != "gpt2":
            add(
                family,
                "plain_into_data_parallel",
                saved(family, plain),
                "both_error error_file",
                model="data_parallel " + family,
            )
    add(
        "unet",
        "into_data_parallel",
        saved("unet", form="safetensors"),
        "for_json both_stdin",
        model="data_parallel unet",
        form="safetensors",
    )
    for family in ("unet", "vit", "llama", "mobilenet_v2"):
        add(
            family,
            "compiled",
            saved(family, lambda s: metadata_under(s, "_orig_mod.")),
            "for_text both_stdin error_pipe alone",
            alone="fixable",
        )
    add("mobilenet_v2", "into_compiled", saved("mobilenet_v2"), "for_text both_stdin error_pipe", model="compile mobilenet_v2")
    add("mobilenet_v2", "plain_into_compiled", saved("mobilenet_v2", plain), "both_error", model="compile mobilenet_v2")
    for prefix in ("module._orig_mod.", "_orig_mod.module."):
        add(
            "resnet18",
            "wrapped_twice_" + prefix[:-1].replace(".", "_"),
            saved("resnet18", lambda s, p=prefix: metadata_under(s, p)),
            "for_text both_stdin error_pipe",
        )
    add("lenet", "into_both", saved("lenet"), "for_text both_stdin", model="both lenet")
    add(
        "unet",
        "data_parallel_into_compiled",
        saved("unet", lambda s: metadata_under(s, "module.")),
        "for_text both_stdin",
        model="compile unet",
    )
    add(
        "vgg11_bn",
        "features_in_data_parallel",
        saved("vgg11_bn", lambda s: renamed(s, lambda k: k.replace("features.", "features.module."))),
        "for_text both_stdin error_pipe",
    )
    for prefix in ("_fsdp_wrapped_module.", "_forward_module."):
        add("attentive", prefix.strip("._"), saved("attentive", lambda s, p=prefix: with_prefix(s, p)), "for_text both_stdin")
    add(
        "attentive",
        "checkpoint_wrapped",
        saved(
            "attentive", lambda s: renamed(s, lambda k: re.sub(r"layers\.(\d+)\.", r"layers.\1._checkpoint_wrapped_module.", k))
        ),
        "for_text both_stdin error_pipe",
    )
    for family in ("resnet18", "mlp_bn"):

        def averaged(s):
            return {"n_averaged": torch.tensor(7), **with_prefix(s, "module.")}

        add(family, "averaged_model", saved(family, averaged), "for_text both_stdin error_pipe")


def lightning(state, prefix="model.", **hyper_parameters):
    return {
        "epoch": 9,
        "global_step": 1200,
        "pytorch-lightning_version": "2.4.0",
        "state_dict": with_prefix(state, prefix),
        "loops": {},
        "callbacks": {},
        "optimizer_states": [],
        "lr_schedulers": [],
        "hparams_name": "kwargs",
        "hyper_parameters": dict(lr=0.1, **hyper_parameters),
    }


def add_prefixes():
    for family in ("resnet18", "unet", "lstm", "bert_classifier"):
        add(
            family, "lightning", saved(family, lightning), "for_text both_stdin error_pipe", attempt=NESTED.format("state_dict")
        )
    for family in ("resnet18", "mobilenet_v2"):
        add(
            family,
            "lightning_with_versions",
            saved(family, lambda s: {**lightning(s), "state_dict": metadata_under(s, "model.")}),
            "for_text both_stdin error_pipe",
            attempt=NESTED.format("state_dict"),
        )
        add(
            family,
            "compiled_plain",
            saved(family, lambda s: with_prefix(s, "_orig_mod.")),
            "both_stdin error_pipe",
        )
        add(family, "backbone_plain", saved(family, lambda s: with_prefix(s, "backbone.")), "both_stdin error_pipe")
    add("resnet18", "lightning_whole", saved("resnet18", lightning), "both_error for_shapes alone")
    named = "epoch=9-val_loss=0.12.ckpt"
    add("unet", "lightning_named", saved("unet", lightning, file=named), "for_text alone", file=named)
    add(
        "mlp_bn",
        "lightning_namespace",
        saved("mlp_bn", lambda s: lightning(s, config=argparse.Namespace(width=8))),
        "for_text both_stdin error_pipe",
    )
    add(
        "mlp_bn",
        "lightning_pickled_loss",
        saved("mlp_bn", lambda s: lightning(s, criterion=torch.nn.CrossEntropyLoss())),
        "for_text both_stdin alone",
    )
    add(
        "mlp_bn",
        "lightning_pickled_module",
        saved("mlp_bn", lambda s: lightning(s, net=models.build("mlp_bn"))),
        "for_text both_stdin",
    )
    add(
        "mlp_bn",
        "lightning_with_loss_weight",
        saved("mlp_bn", lambda s: {"state_dict": {**with_prefix(s, "net."), "criterion.weight": torch.ones(4)}, "epoch": 3}),
        "for_text for_shapes",
    )
    for family in ("resnet18", "mobilenet_v2", "densenet"):

        def headed(s):
            return {**with_prefix(s, "backbone."), "head.weight": torch.ones(3, 4), "head.bias": torch.ones(3)}

        add(family, "backbone_and_head", saved(family, headed), "for_text both_stdin error_pipe")
        add(family, "backbone", saved(family, lambda s: metadata_under(s, "backbone.")), "both_stdin error_file for_shapes")
    add("bert_base", "encoder", saved("bert_base", lambda s: with_prefix(s, "encoder.")), "for_text both_stdin")
    add(
        "vit",
        "module_encoder_q",
        saved(
            "vit",
            lambda s: {
                "state_dict": {
                    **with_prefix(s, "module.encoder_q."),
                    **with_prefix(renamed_values(s), "module.encoder_k."),
                    "module.queue": torch.ones(2, 3),
                }
            },
        ),
        "for_text for_shapes",
        expect="any",
    )
    add("bert", "base_of_masked_lm", saved("bert"), "for_text both_stdin", model="bert_base", expect="partial")
    add("gpt2", "base_of_lm", saved("gpt2"), "for_text both_stdin error_pipe", model="gpt2_base")
    add(
        "gpt2_base",
        "lm_of_base",
        saved("gpt2_base"),
        "for_text for_file both_stdin",
        model="gpt2",
        by_names="any",
        by_message="any",
    )


def renamed_values(state):
    return {key: value + 1 if value.is_floating_point() else value for key, value in state.items()}


def add_nesting():
    for key, family in (("state_dict", "resnet18"), ("model", "mobilenet_v2"), ("net", "unet"), ("model_state_dict", "lstm")):

        def nested(s, key=key, family=family):
            return {"epoch": 4, key: s, "optimizer": some_optimizer(family), "best_acc": 71.5}

        add(family, "nested_in_" + key, saved(family, nested), "for_text both_stdin error_pipe alone", alone="fixable")

    def imagenet(s):
        return {
            "epoch": 90,
            "arch": "resnet18",
            "state_dict": metadata_under(s, "module."),
            "best_acc1": torch.tensor(69.5),
            "optimizer": some_optimizer("resnet18", torch.optim.SGD, momentum=0.9),
        }

    for form in ("zip", "legacy"):
        add(
            "resnet18",
            "imagenet_example",
            saved("resnet18", imagenet, form, "model_best.pth.tar"),
            "for_text for_place both_stdin alone",
            file="model_best.pth.tar",
            form=form,
        )

    def timm_run(s):
        return {
            "epoch": 12,
            "arch": "vit",
            "state_dict": s,
            "optimizer": some_optimizer("timm_vit"),
            "version": 2,
            "args": argparse.Namespace(model="vit", lr=0.1),
            "metric": 71.2,
        }

    add("timm_vit", "timm_run", saved("timm_vit", timm_run), "for_text both_stdin alone for_place")

    def detector(s):
        head = {"bbox_head.cls.weight": torch.ones(3, 2), "bbox_head.cls.bias": torch.ones(3)}
        return {
            "meta": {"epoch": 12, "CLASSES": ("a", "b")},
            "state_dict": {**with_prefix(s, "backbone."), **head},
            "optimizer": some_optimizer("resnet18"),
        }

    add("resnet18", "backbone_of_detector", saved("resnet18", detector), "for_shapes both_stdin alone")

    def half_module(s):
        model = models.build("mlp_bn")
        model.load_state_dict(s)
        return {"epoch": -1, "model": model.half(), "ema": None, "train_args": {"lr": 0.1}}

    add("mlp_bn", "half_module_nested", saved("mlp_bn", half_module), "for_text alone", through="float16")
    add(
        "mlp_bn",
        "deeply_nested",
        saved("mlp_bn", lambda s: {"checkpoint": {"models": {"net": s}}, "step": 3}),
        "for_text both_stdin",
    )
    add("mlp_bn", "in_a_tuple", saved("mlp_bn", lambda s: (s, some_optimizer("mlp_bn"), 3)), "for_text both_stdin")
    add("mlp_bn", "in_a_list", saved("mlp_bn", lambda s: [3, {"params": plain(s)}]), "for_text")
    def wrapped_beside(s):
        return {"model": with_prefix(s, "module."), "ema": with_prefix(renamed_values(s), "module."), "epoch": 2}

    add("mlp_bn", "wrapped_beside_ema", saved("mlp_bn", wrapped_beside), "for_text for_shapes both_stdin alone")
    for other in ("ema", "state_dict_ema", "model_ema"):

        def beside(s, other=other):
            return {"state_dict": s, other: renamed_values(s), "epoch": 2}

        add("vit", "beside_" + other, saved("vit", beside), "for_text both_stdin alone", tells=[other])

    def two_networks(s):
        return {"generator": s, "discriminator": models.trained("discriminator"), "g_optim": some_optimizer("unet")}

    add("unet", "generator_of_gan", saved("unet", two_networks), "for_text both_stdin")

    def parts(s):
        return {
            "encoder": {k[8:]: v for k, v in s.items() if k.startswith("encoder.")},
            "decoder": {k[8:]: v for k, v in s.items() if k.startswith("decoder.")},
        }

    add("autoencoder", "in_parts", saved("autoencoder", parts), "for_text both_stdin")
    add(
        "resnet18",
        "nested_wrapped_on_gpu",
        tagged("resnet18", lambda s: {"state_dict": with_prefix(s, "module."), "epoch": 3}, "cuda:3"),
        "for_text both_stdin error_pipe alone",
        alone="fixable",
    )


def tagged(family, change, tag, form="zip"):
    write = saved(family, change, form)

    def tagged_write():
        with on_device(tag):
            write()

    return tagged_write


def add_all():
    for part in (add_wrappers, add_prefixes, add_nesting):
        part()
