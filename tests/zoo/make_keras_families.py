"""Makes keras_families of tests/golden/keras.tar.xz: for each model that both keras.applications and torchvision have, in
narrow form, the keys that Keras saves and those of torchvision, with checksums of what the weights of one are in the other.
Weights come from a formula, so that none are stored. Both libraries compute with the weights before anything is written,
and must come to the same. Use: python make_keras_families.py FOLDER (needs keras, torch, torchvision, h5py)

A case is FOLDER/keras_families/RULES.json: {"keras": rows, "torch": rows}; a row is [key, shape, dtype, seed, offset,
scale, checksum]. Element i of a tensor is offset + scale * u / 4096, where u is the upper 12 bits of the lower 32 bits of
i * 2654435761 + seed * 40503, rounded to the tensor's type. The checksum, lower 16 bits of a CRC-32, is of the bytes that
the other side's tensors become under this key."""

import json
import os
import re
import sys
import tempfile
import zlib

os.environ["KERAS_BACKEND"] = "torch"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import h5py  # noqa: E402
import keras  # noqa: E402
import numpy  # noqa: E402
import torch  # noqa: E402
from keras.src.applications import (  # noqa: E402
    convnext, densenet, efficientnet, efficientnet_v2, inception_v3, mobilenet_v2, mobilenet_v3, resnet)
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torchvision import models  # noqa: E402

CLASSES = 5
WIDTH = 0.125
OPTIONS = {"weights": None, "classes": CLASSES, "classifier_activation": None}
IMAGENET_MEAN, IMAGENET_STD = numpy.array([0.485, 0.456, 0.406]), numpy.array([0.229, 0.224, 0.225])


def narrow(channels):
    return efficientnet_v2.round_filters(channels, WIDTH, 8, 8)


# Models of both libraries, and which layer of Keras is which module.

def resnets(depth, blocks):
    widths = (4, 8, 8, 12)

    def stack(x):
        for i, (width, count) in enumerate(zip(widths, blocks)):
            x = resnet.stack_residual_blocks_v1(x, width, count, stride1=1 if i == 0 else 2, name=f"conv{i + 2}")
        return x

    ours = models.ResNet(models.resnet.Bottleneck, [1, 1, 1, 1], num_classes=CLASSES)
    ours.inplanes = 64
    for i, (width, count) in enumerate(zip(widths, blocks)):
        setattr(ours, f"layer{i + 1}", ours._make_layer(models.resnet.Bottleneck, width, count, stride=1 if i == 0 else 2))
    ours.fc = nn.Linear(4 * widths[-1], CLASSES)
    for layer in (ours.layer2, ours.layer3, ours.layer4):  # where Keras has the stride
        layer[0].conv1.stride, layer[0].conv2.stride = (2, 2), (1, 1)

    def module(name, names):
        first = re.fullmatch("conv1_(conv|bn)", name)
        if first:
            return first[1] + "1"
        if name == "predictions":
            return "fc"
        stage, block, place, kind = re.fullmatch(r"conv(\d)_block(\d+)_(\d)_(conv|bn)", name).groups()
        last = f"downsample.{int(kind == 'bn')}" if place == "0" else kind + place
        return f"layer{int(stage) - 1}.{int(block) - 1}.{last}"

    theirs = lambda size: resnet.ResNet(stack, False, True, f"resnet{depth}", input_shape=(size, size, 3), **OPTIONS)
    return theirs, ours, module


def densenets(blocks):
    whole = densenet.conv_block
    densenet.conv_block = lambda x, growth, name: whole(x, 4, name=name)
    theirs = lambda size: densenet.DenseNet(list(blocks), input_shape=(size, size, 3), **OPTIONS)
    ours = models.DenseNet(4, blocks, 64, num_classes=CLASSES)

    def module(name, names):
        known = {"conv1_conv": "features.conv0", "conv1_bn": "features.norm0", "bn": "features.norm5",
                 "predictions": "classifier"}
        if name in known:
            return known[name]
        pool = re.fullmatch(r"pool(\d)_(conv|bn)", name)
        if pool:
            return f"features.transition{int(pool[1]) - 1}." + {"conv": "conv", "bn": "norm"}[pool[2]]
        stage, block, last = re.fullmatch(r"conv(\d)_block(\d+)_(.*)", name).groups()
        return (f"features.denseblock{int(stage) - 1}.denselayer{block}." +
                {"0_bn": "norm1", "1_conv": "conv1", "1_bn": "norm2", "2_conv": "conv2"}[last])

    return theirs, ours, module


def efficient_module(stages):
    def module(name, names):
        known = {"stem_conv": "features.0.0", "stem_bn": "features.0.1", "top_conv": f"features.{stages + 1}.0",
                 "top_bn": f"features.{stages + 1}.1", "predictions": "classifier.1"}
        if name in known:
            return known[name]
        block, stage, letter, last = re.fullmatch(r"(block(\d)([a-z]+))_(.*)", name).groups()
        order = [["expand_conv", "expand_bn"]] if block + "_expand_conv" in names else []
        depthwise = [each for each in ("dwconv", "dwconv2") if f"{block}_{each}" in names]
        if depthwise:
            order += [[depthwise[0], "bn"], ["se_reduce", "se_expand"]]
        order += [["project_conv", "project_bn"]]
        place = next(i for i, pair in enumerate(order) if last in pair)
        within = order[place].index(last)
        step = f"fc{within + 1}" if last.startswith("se_") else str(within)
        return f"features.{stage}.{ord(letter) - ord('a')}.block.{place}.{step}"

    return module


def efficientnets(name, depth):
    theirs = lambda size: efficientnet.EfficientNet(WIDTH, depth, size, input_shape=(size, size, 3), weights_name="b0",
                                                    **OPTIONS)
    setting, last = models.efficientnet._efficientnet_conf(name, width_mult=WIDTH, depth_mult=depth)
    eps = 1e-3 if name in ("efficientnet_b5", "efficientnet_b6", "efficientnet_b7") else 1e-5
    ours = models.EfficientNet(setting, 0.0, num_classes=CLASSES, last_channel=last,
                               norm_layer=lambda channels: nn.BatchNorm2d(channels, eps=eps))
    return theirs, ours, efficient_module(7)


def efficientnets_v2(size_letter):
    name = "efficientnetv2-" + size_letter
    theirs = lambda size: efficientnet_v2.EfficientNetV2(WIDTH, 1.0, size, input_shape=(size, size, 3), name=name,
                                                         **OPTIONS)
    setting, _ = models.efficientnet._efficientnet_conf("efficientnet_v2_" + size_letter)
    for stage in setting:
        stage.input_channels, stage.out_channels = narrow(stage.input_channels), narrow(stage.out_channels)
    ours = models.EfficientNet(setting, 0.0, num_classes=CLASSES, last_channel=narrow(1280),
                               norm_layer=lambda channels: nn.BatchNorm2d(channels, eps=1e-3))
    return theirs, ours, efficient_module(len(setting))


def mobilenets_v3(size_name):
    build = {"small": mobilenet_v3.MobileNetV3Small, "large": mobilenet_v3.MobileNetV3Large}[size_name]
    theirs = lambda size: build(input_shape=(size, size, 3), **OPTIONS)
    ours = getattr(models, "mobilenet_v3_" + size_name)(num_classes=CLASSES)
    last = len(ours.features) - 1

    def module(name, names):
        known = {"conv": "features.0.0", "conv_bn": "features.0.1", "conv_1": f"features.{last}.0",
                 "conv_1_bn": f"features.{last}.1", "conv_2": "classifier.0", "logits": "classifier.3"}
        if name in known:
            return known[name]
        block, number, step = re.fullmatch(r"(expanded_conv(?:_(\d+))?)_([a-z].*)", name).groups()
        order = [["expand", "expand_bn"]] if block + "_expand" in names else []
        order += [["depthwise", "depthwise_bn"]]
        if block + "_squeeze_excite_conv" in names:
            order += [["squeeze_excite_conv", "squeeze_excite_conv_1"]]
        order += [["project", "project_bn"]]
        place = next(i for i, pair in enumerate(order) if step in pair)
        within = order[place].index(step)
        return (f"features.{int(number or 0) + 1}.block.{place}." +
                (f"fc{within + 1}" if step.startswith("squeeze") else str(within)))

    return theirs, ours, module


def mobilenets_v2():
    theirs = lambda size: mobilenet_v2.MobileNetV2(alpha=WIDTH, input_shape=(size, size, 3), **OPTIONS)
    ours = models.MobileNetV2(num_classes=CLASSES, width_mult=WIDTH)

    def module(name, names):
        known = {"Conv1": "features.0.0", "bn_Conv1": "features.0.1", "Conv_1": "features.18.0",
                 "Conv_1_bn": "features.18.1", "predictions": "classifier.1"}
        if name in known:
            return known[name]
        number, step = re.fullmatch(r"(?:expanded_conv|block_(\d+))_(.*)", name).groups()
        order = ["expand", "depthwise", "project"] if number else ["depthwise", "project"]
        kind, bn = re.fullmatch(r"([a-z]+?)(_BN)?", step).groups()
        place = order.index(kind)
        last = place == len(order) - 1
        return f"features.{int(number or 0) + 1}.conv." + (str(place + bool(bn)) if last else f"{place}.{int(bool(bn))}")

    return theirs, ours, module


def convnexts(depths):
    widths = [8, 12, 16, 20]
    theirs = lambda size: convnext.ConvNeXt(depths, widths, name="convnext_x", input_shape=(size, size, 3),
                                            weights_name="convnext_tiny", **OPTIONS)
    setting = [models.convnext.CNBlockConfig(width, then, depth)
               for width, then, depth in zip(widths, widths[1:] + [None], depths)]
    ours = models.ConvNeXt(setting, num_classes=CLASSES)

    def module(name, names):
        name = name.removeprefix("convnext_x_")
        known = {"stem_conv": "features.0.0", "stem_layernorm": "features.0.1", "head_layernorm": "classifier.0",
                 "head_dense": "classifier.2"}
        if name in known:
            return known[name]
        between = re.fullmatch(r"downsampling_(conv|layernorm)_(\d)", name)
        if between:
            return f"features.{2 * int(between[2]) + 2}.{int(between[1] == 'conv')}"
        stage, block, step = re.fullmatch(r"stage_(\d)_block_(\d+)_(.*)", name).groups()
        return f"features.{2 * int(stage) + 1}.{block}." + {
            "depthwise_conv": "block.0", "layernorm": "block.2", "pointwise_conv_1": "block.3",
            "pointwise_conv_2": "block.5", "layer_scale": "layer_scale"}[step]

    return theirs, ours, module


def inceptions():
    divisor = 16
    whole = inception_v3.conv2d_bn
    inception_v3.conv2d_bn = lambda x, filters, *rest, **named: whole(x, filters // divisor, *rest, **named)

    def thin(channels_in, channels_out, **options):
        return models.inception.BasicConv2d(3 if channels_in == 3 else channels_in // divisor, channels_out // divisor, **options)

    parts = models.inception
    blocks = [thin, *[lambda *rest, part=part, **named: part(*rest, conv_block=thin, **named)
                      for part in (parts.InceptionA, parts.InceptionB, parts.InceptionC, parts.InceptionD,
                                   parts.InceptionE, parts.InceptionAux)]]
    ours = models.Inception3(CLASSES, False, False, blocks, False)
    ours.fc = nn.Linear(2048 // divisor, CLASSES)
    for part in ours.modules():  # averages of what is inside of the image, as Keras takes them
        if isinstance(getattr(part, "branch_pool", None), nn.Module):
            part.branch_pool.register_forward_pre_hook(
                lambda module, given: (given[0] / functional.avg_pool2d(torch.ones_like(given[0]), 3, 1, 1),))
    convolutions = [name for name, part in ours.named_modules() if isinstance(part, parts.BasicConv2d)]

    def module(name, names):
        if name == "predictions":
            return "fc"
        kind = "conv2d" if name.startswith("conv2d") else "batch_normalization"
        numbers = sorted(int(each.removeprefix(kind).strip("_") or 0) for each in names if each.startswith(kind))
        place = numbers.index(int(name.removeprefix(kind).strip("_") or 0))
        return convolutions[place] + (".conv" if kind == "conv2d" else ".bn")

    theirs = lambda size: inception_v3.InceptionV3(input_shape=(size, size, 3), **OPTIONS)
    return theirs, ours, module


DEPTHS = (1.0, 1.1, 1.2, 1.4, 1.8, 2.2, 2.6, 3.1)
CASES = {
    "keras-resnet50": lambda: resnets(50, (3, 4, 6, 3)),
    "keras-resnet101": lambda: resnets(101, (3, 4, 23, 3)),
    "keras-resnet152": lambda: resnets(152, (3, 8, 36, 3)),
    "keras-densenet121": lambda: densenets((6, 12, 24, 16)),
    "keras-densenet169": lambda: densenets((6, 12, 32, 32)),
    "keras-densenet201": lambda: densenets((6, 12, 48, 32)),
    **{f"keras-efficientnet-b{i}": lambda i=i: efficientnets(f"efficientnet_b{i}", DEPTHS[i]) for i in range(8)},
    **{f"keras-efficientnet-v2-{size}": lambda size=size: efficientnets_v2(size) for size in "sml"},
    "keras-mobilenet-v2": mobilenets_v2,
    "keras-mobilenet-v3-small": lambda: mobilenets_v3("small"),
    "keras-mobilenet-v3-large": lambda: mobilenets_v3("large"),
    "keras-convnext-tiny": lambda: convnexts([3, 3, 9, 3]),
    "keras-convnext-base": lambda: convnexts([3, 3, 27, 3]),
    "keras-inception-v3": inceptions,
}
NORMALISED = ("keras-efficientnet-b", "keras-convnext")  # inside of Keras' model
SCALED = {"keras-efficientnet-v2": 128.0, "keras-mobilenet-v3": 127.5}


# Weights by formula, and one library's in the other's layout.

def formula(shape, dtype, seed, offset, scale):
    count = int(numpy.prod(shape, dtype=numpy.int64))
    numbers = (numpy.arange(count, dtype=numpy.uint64) * 2654435761 + seed * 40503) % 2**32 >> 20
    return (offset + scale * numbers.astype("f8") / 4096).astype(dtype).reshape(shape)


def offset_and_scale(kind, shape, gain):
    if kind in ("gamma", "moving_variance", "running_var"):
        return 0.5, 1.0
    if kind == "count":
        return 0.0, 0.0
    if len(shape) < 2:
        return -0.25, 0.5
    if kind != "kernel":
        fan_in = numpy.prod(shape[1:])
    else:
        fan_in = numpy.prod(shape[:2] if shape[-1] == 1 else shape[:-1])
    spread = round(float(gain / numpy.sqrt(fan_in)) * 256) / 256
    return -spread / 2, spread


def keras_keys(model):
    """The variables under the names that a file of weights has them by: that of Keras itself, read by h5py."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.weights.h5")
        tags = {}
        for tag, variable in enumerate(model.variables):  # each tells itself by its first value
            variable.assign(numpy.full(variable.shape, tag, variable.dtype))
            tags[tag] = variable
        model.save_weights(path)
        found = {}

        def visit(name, item):
            if isinstance(item, h5py.Dataset):
                found[name.replace("/", ".")] = tags[int(numpy.asarray(item).flat[0])]

        with h5py.File(path) as file:
            file.visititems(visit)
    return found


def layers_of(model):
    out = {}
    for layer in model._flatten_layers():
        for variable in layer._trainable_variables + layer._non_trainable_variables:
            out[id(variable)] = layer
    return out


def torch_from_keras(layer, kind, values, target_shape):
    if type(layer).__name__ == "DepthwiseConv2D":
        return values.transpose(2, 3, 0, 1)
    if kind == "kernel":
        values = values.transpose(3, 2, 0, 1) if values.ndim == 4 else values.T
    return values.reshape(target_shape)


def keras_from_torch(layer, kind, values, target_shape):
    if type(layer).__name__ == "DepthwiseConv2D":
        return values.transpose(2, 3, 0, 1)
    if kind == "kernel" and len(target_shape) == 4:
        return values.reshape(*values.shape[:2], *target_shape[:2]).transpose(2, 3, 1, 0)
    if kind == "kernel":
        return values.T
    return values.reshape(target_shape)


KINDS = {"kernel": "weight", "bias": "bias", "gamma": "weight", "beta": "bias", "moving_mean": "running_mean",
         "moving_variance": "running_var"}


class Twins:
    def __init__(self, rules):
        keras.backend.clear_session()
        self.rules = rules
        self.make, self.ours, module = CASES[rules]()
        self.ours.eval()
        self.theirs = self.make(self.size())
        self.keys = keras_keys(self.theirs)
        self.layers = layers_of(self.theirs)
        names = {layer.name for layer in self.layers.values()}
        self.state = {key: value for key, value in self.ours.state_dict().items() if value.ndim > 0}
        self.places = {}  # key of Keras -> (layer, kind, key of torchvision or None)
        for key, variable in self.keys.items():
            layer = self.layers[id(variable)]
            kind = variable.path.split("/")[-1]
            if type(layer).__name__ == "Normalization":
                self.places[key] = (layer, kind, None)
            elif type(layer).__name__ == "LayerScale":
                self.places[key] = (layer, "scale", module(layer.name, names))
            else:
                self.places[key] = (layer, kind, module(layer.name, names) + "." + KINDS[kind])

    def size(self):
        return 107 if "inception" in self.rules else 97  # at which every stride sees an odd size

    def eps(self, key):
        """What the batch norm of a running variance has more in Keras than in torchvision."""
        layer = next(layer for layer, _, to in self.places.values() if to == key)
        return round(layer.epsilon - self.ours.get_submodule(key.rpartition(".")[0]).eps, 12)

    def torch_values(self, values):
        """torchvision's state for the values of Keras, by key."""
        state = {}
        for key, (layer, kind, to) in self.places.items():
            if to in self.state:
                state[to] = torch_from_keras(layer, kind, values[key], tuple(self.state[to].shape))
        for key, (layer, kind, to) in self.places.items():
            if to is not None and to not in self.state:  # a bias before a batch norm
                state[self.mean_behind(to)] = state[self.mean_behind(to)] - values[key]
        for key in self.state:
            if key not in state:  # a gamma that Keras does not have
                state[key] = numpy.ones(self.state[key].shape, "f4")
            if key.endswith("running_var") and self.eps(key):
                state[key] = (state[key].astype("f8") + self.eps(key)).astype("f4")
        return state

    @staticmethod
    def mean_behind(bias):
        module = bias.removesuffix(".bias")
        behind = re.sub(r"conv(\d)$", r"bn\1", module) if module[-4:-1] == "onv" else module[:-1] + "1"
        return behind + ".running_mean"

    def keras_values(self, state):
        state = dict(state)
        for key in self.state:
            if key.endswith("running_var") and self.eps(key):
                state[key] = (state[key].astype("f8") - self.eps(key)).astype("f4")
        wanted = {to for _, _, to in self.places.values()}
        for key in self.state:
            if key not in wanted:  # Keras' batch norm has no gamma: the convolution before it takes it in
                gamma, norm = state.pop(key), key.removesuffix(".weight")
                kernel = norm.removesuffix("bn") + "conv.weight"
                state[kernel] = (state[kernel].astype("f8") * gamma[:, None, None, None]).astype("f4")
                state[norm + ".running_mean"] = state[norm + ".running_mean"] * gamma
        values = {}
        for key, (layer, kind, to) in self.places.items():
            shape = tuple(self.keys[key].shape)
            if to in state:
                values[key] = keras_from_torch(layer, kind, state[to], shape)
            elif to is not None:
                values[key] = numpy.zeros(shape, "f4")
            else:
                values[key] = {"mean": IMAGENET_MEAN, "variance": IMAGENET_STD**2, "count": numpy.array(0)}[kind].astype(
                    self.keys[key].dtype)
        return values

    def compare(self, values, state):
        """By how much, of the largest, the outputs of both differ, and those of Keras for two images."""
        for key, variable in self.keys.items():
            variable.assign(values[key])
        for layer in self.theirs.layers:
            if type(layer).__name__ == "Normalization" and layer.weights:
                layer.finalize_state()
        missing, unexpected = self.ours.load_state_dict(
            {key: torch.from_numpy(numpy.ascontiguousarray(value)) for key, value in state.items()}, strict=False)
        assert not unexpected and all(key.endswith("num_batches_tracked") for key in missing)
        image = numpy.random.default_rng(0).uniform(0, 255, (2, self.size(), self.size(), 3))
        inside = image / next((to for name, to in SCALED.items() if self.rules.startswith(name)), 127.5) - 1
        given = image if self.rules.startswith((*NORMALISED, *SCALED)) else inside
        if self.rules.startswith("keras-efficientnet-b"):
            norm = next(key for key in values if key.endswith(".normalization.vars.0"))
            inside = (image / 255 - values[norm]) / numpy.sqrt(values[norm[:-1] + "1"])
        if self.rules.startswith("keras-convnext"):
            inside = (image / 255 - IMAGENET_MEAN) / IMAGENET_STD
        with torch.no_grad():
            wanted = self.theirs(torch.from_numpy(given.astype("f4")), training=False).numpy()
            got = self.ours(torch.from_numpy(inside.transpose(0, 3, 1, 2).astype("f4"))).numpy()
        largest = numpy.abs(wanted).max()
        return float(numpy.abs(got - wanted).max() / largest), float(numpy.abs(wanted[0] - wanted[1]).max() / largest)


def checksum(values):
    return zlib.crc32(numpy.ascontiguousarray(values).tobytes()) & 0xFFFF


def rows_of(twins, gain):
    """Rows without checksums, and the values that they mean: of Keras, of torchvision."""
    keras_rows, torch_rows = [], []
    for key, variable in twins.keys.items():
        kind, shape = twins.places[key][1], list(variable.shape)
        offset, scale = offset_and_scale("gamma" if kind == "variance" else kind, shape, gain)
        keras_rows.append([key, shape, str(variable.dtype), len(keras_rows), offset, scale])
    for key, value in twins.state.items():
        norm = key.endswith(".weight") and len(value.shape) == 1
        offset, scale = offset_and_scale("gamma" if norm else key.split(".")[-1], list(value.shape), gain)
        torch_rows.append([key, list(value.shape), "float32", len(torch_rows), offset, scale])
    return [(rows, {row[0]: formula(*row[1:]) for row in rows}) for rows in (keras_rows, torch_rows)]


def case(rules):
    """The first gain counts with which outputs depend on the image and do not magnify roundings."""
    twins = Twins(rules)
    for gain in (6.0, 5.0, 4.25, 3.5, 3.0):
        (keras_rows, values), (torch_rows, state) = rows_of(twins, gain)
        there, back = twins.torch_values(values), twins.keras_values(state)
        results = [twins.compare(values, there), twins.compare(back, state)]
        if all(difference < 1e-5 and reacts > 500 * difference for difference, reacts in results):
            break
    else:
        raise AssertionError((rules, results))
    for row in keras_rows:
        row.append(checksum(back[row[0]]))
    for row in torch_rows:
        row.append(checksum(there[row[0]]))
    print(f"{rules}: {len(keras_rows)} and {len(torch_rows)} tensors; gain {gain}, differences", results, flush=True)
    return {"keras": keras_rows, "torch": torch_rows}


def main():
    folder = os.path.join(sys.argv[1], "keras_families")
    os.makedirs(folder, exist_ok=True)
    for rules in sys.argv[2:] or CASES:
        with open(os.path.join(folder, rules + ".json"), "w") as file:
            json.dump(case(rules), file, separators=(",", ":"))


if __name__ == "__main__":
    main()
