"""Makes the golden data set of event files with PyTorch and tensorboard: the calls, and what the files hold.

Usage: make_tensorboard.py FOLDER        writes FOLDER/tensorboard/cases.json
       make_tensorboard.py --read RUN    prints what tensorboard reads in the folder RUN
"""
import glob
import io
import json
import math
import os
import sys
import tempfile

import numpy
import torch
from PIL import Image
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from torch.utils.tensorboard import SummaryWriter


def numbers(values):
    return [v if math.isfinite(v) else str(v) for v in map(float, values)]


def value_of(value):
    kind = value.WhichOneof("value")
    facts = {"tag": value.tag, "plugin": value.metadata.plugin_data.plugin_name}
    if kind == "simple_value":
        facts["simple_value"] = numbers([value.simple_value])[0]
    elif kind == "histo":
        h = value.histo
        facts["histogram"] = numbers([h.min, h.max, h.num, h.sum, h.sum_squares])
        facts["limits"], facts["counts"] = numbers(h.bucket_limit), numbers(h.bucket)
    elif kind == "image":
        pixels = numpy.array(Image.open(io.BytesIO(value.image.encoded_image_string)))
        facts["size"] = [value.image.height, value.image.width, value.image.colorspace]
        facts["pixels"] = pixels.reshape(-1).tolist()
    elif kind == "tensor":
        facts["text"] = value.tensor.string_val[0].decode()
    content = value.metadata.plugin_data.content
    if facts["plugin"] == "hparams":
        data = HParamsPluginData.FromString(content)
        facts["parameters"] = [
            [i.name, i.type, [v.number_value or v.string_value for v in i.domain_discrete.values]]
            for i in data.experiment.hparam_infos]
        facts["metrics"] = [i.name.tag for i in data.experiment.metric_infos]
        facts["values"] = {k: v.string_value if v.WhichOneof("kind") == "string_value" else v.number_value
                           for k, v in data.session_start_info.hparams.items()}
        facts["status"] = data.session_end_info.status
    return facts


def events_in(folder):
    found = {}
    for path in sorted(glob.glob(folder + "/**/events.out*", recursive=True)):
        events = [Event.FromString(e) for e in RawEventFileLoader(path).Load()]
        found[os.path.relpath(os.path.dirname(path), folder)] = [
            {"step": e.step, "version": e.file_version, "session": e.session_log.status,
             "values": [value_of(v) for v in e.summary.value]} for e in events]
    return found


KINDS = {"f32": torch.float32, "f64": torch.float64, "i64": torch.int64, "u8": torch.uint8}


def run(calls, options):
    with tempfile.TemporaryDirectory() as folder:
        writer = SummaryWriter(folder, **options)
        for call in calls:
            arguments = {k: v for k, v in call.items() if k not in ("call", "tensor")}
            if "tensor" in call:
                t = call["tensor"]
                x = torch.tensor([float(v) for v in t["values"]], dtype=torch.float64).to(KINDS[t["dtype"]])
                name = {"add_histogram": "values", "add_image": "img_tensor", "add_images": "img_tensor",
                        "add_scalar": "scalar_value"}[call["call"]]
                arguments[name] = x.reshape(t["sizes"])
            getattr(writer, call["call"])(**arguments)
        writer.close()
        return {"calls": calls, "options": options, "files": events_in(folder)}


def tensor(x, dtype):
    return {"values": numbers(x.double().reshape(-1).tolist()), "dtype": dtype, "sizes": list(x.shape)}


def histogram_cases():
    torch.manual_seed(3)
    wide = torch.randn(500).double() * 10 ** torch.randint(-14, 22, (500,)).double()
    odd = torch.tensor([float("inf"), -float("inf"), 0.0, 1.0, 1e-12, -1e-12, 1.1e-12])
    inputs = {"normal": (torch.randn(40, 5), "f32"), "wide": (wide, "f64"), "one": (torch.tensor([0.0]), "f32"),
              "odd": (odd, "f64"), "integers": (torch.arange(-6, 9), "i64"), "bytes": (torch.arange(0, 250, 7), "u8")}
    for name, (x, dtype) in inputs.items():
        yield name, {"tensor": tensor(x, dtype)}
    yield "limits", {"tensor": tensor(torch.randn(60), "f32"), "bins": [-2.0, -1.0, -0.5, 0.0, 0.25, 1.0]}
    for most in (3, 10, 64, 1000):
        yield f"most_{most}", {"tensor": tensor(torch.randn(80), "f32"), "max_bins": most}


def image_cases():
    torch.manual_seed(4)
    shapes = {"CHW": (3, 4, 5), "HWC": (4, 5, 3), "HW": (3, 6), "CWH": (4, 2, 3), "NCHW": (9, 3, 2, 3), "NHWC": (3, 2, 4, 1)}
    for formats, sizes in shapes.items():
        call = "add_images" if len(formats) == 4 else "add_image"
        for dtype in ("f32", "u8", "f64"):
            x = torch.randint(0, 256, sizes) if dtype == "u8" else torch.rand(sizes) * 1.4 - 0.2
            yield f"{formats}_{dtype}", {"call": call, "tensor": tensor(x, dtype), "dataformats": formats}


def cases():
    scalars = [0.5, -1e30, 1e-42, float(numpy.float32(0.1)), 3.0, 16777217.0]
    yield "scalars", [{"call": "add_scalar", "tag": "a/b", "scalar_value": v, "global_step": i}
                      for i, v in enumerate(scalars)], {}
    yield "scalar_tensor", [{"call": "add_scalar", "tag": "t", "tensor": tensor(torch.tensor([[2.5]]), "f32")}], {}
    yield "negative_step", [{"call": "add_scalar", "tag": "t", "scalar_value": 1.0, "global_step": -3}], {}
    yield "many_lines", [{"call": "add_scalars", "main_tag": "run/14h", "tag_scalar_dict": {"x": 1.0, "y y": 2.0},
                          "global_step": i} for i in range(3)], {}
    yield "text", [{"call": "add_text", "tag": "note", "text_string": "größer *as* ever\n| a |", "global_step": 2},
                   {"call": "add_text", "tag": "empty", "text_string": ""}], {}
    yield "purge", [{"call": "add_scalar", "tag": "t", "scalar_value": 1.0, "global_step": 5}], {"purge_step": 5}
    yield "hparams", [{"call": "add_hparams", "hparam_dict": {"lr": 0.1, "size": 32, "deep": True, "name": "adam"},
                       "metric_dict": {"hparam/loss": 0.25, "accuracy": 10.0}, "run_name": "first", "global_step": 4,
                       "hparam_domain_discrete": {"name": ["adam", "sgd"], "lr": [0.1, 0.2]}}], {}
    for name, facts in histogram_cases():
        yield "histogram_" + name, [{"call": "add_histogram", "tag": "h", "global_step": 1, **facts}], {}
    for name, facts in image_cases():
        yield "image_" + name, [{"tag": "i", "global_step": 1, **facts}], {}


def main():
    if sys.argv[1] == "--read":
        print(json.dumps(events_in(sys.argv[2]), ensure_ascii=False))
        return
    folder = os.path.join(sys.argv[1], "tensorboard")
    os.makedirs(folder, exist_ok=True)
    made = [{"id": name, **run(calls, options)} for name, calls, options in cases()]
    with open(os.path.join(folder, "cases.json"), "w", encoding="utf-8") as file:
        json.dump({"cases": made}, file, ensure_ascii=False, separators=(",", ":"))
    print(len(made), "cases")


if __name__ == "__main__":
    main()
