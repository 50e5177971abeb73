#!/usr/bin/env python3
"""What image processors of transformers make of an image: what tests/golden/image_processors.tar.xz holds.

    make_image_processors.py FOLDER     needs PyTorch, transformers and Pillow; then tar -cJf image_processors.tar.xz -C FOLDER
                                        image_processors pairs

FOLDER/image_processors/NAME/config.json, preprocessor_config.json (or none)   as a folder of a model has them
FOLDER/image_processors/NAME/image.png                                         an image
FOLDER/image_processors/NAME/pixels.safetensors                                "pixel_values" (channels, height, width)
FOLDER/pairs/clip, clip.texts.json, clip.safetensors                           a small CLIP with images, texts, their "logits"
"""
import json
import os
import sys

import numpy
import torch
import transformers
from PIL import Image
from safetensors.torch import save_file

CASES = [
    ("vit", "ViTForImageClassification", "ViTImageProcessorPil", {"size": {"height": 15, "width": 18}}, (29, 37)),
    ("vit_larger", "ViTForImageClassification", "ViTImageProcessorPil", {"size": {"height": 24, "width": 24}}, (9, 17)),
    ("vit_bicubic", "ViTForImageClassification", "ViTImageProcessorPil", {"size": {"height": 16, "width": 16}, "resample": 3}, (33, 40)),
    ("deit", "DeiTForImageClassification", "DeiTImageProcessorPil",
     {"size": {"height": 20, "width": 18}, "crop_size": {"height": 15, "width": 16}}, (29, 37)),
    ("beit", "BeitForImageClassification", "BeitImageProcessorPil",
     {"size": {"height": 20, "width": 18}, "crop_size": {"height": 15, "width": 16}, "do_center_crop": True}, (21, 50)),
    ("dinov2", "Dinov2ForImageClassification", "BitImageProcessorPil",
     {"size": {"shortest_edge": 19}, "crop_size": {"height": 16, "width": 16}}, (37, 64)),
    ("clip", "CLIPModel", "CLIPImageProcessorPil", {"size": {"shortest_edge": 16}, "crop_size": {"height": 16, "width": 16}}, (21, 50)),
    ("convnextv2", "ConvNextV2ForImageClassification", "ConvNextImageProcessorPil", {"size": {"shortest_edge": 17}, "crop_pct": 0.8}, (30, 41)),
    ("mobilevit", "MobileViTForImageClassification", "MobileViTImageProcessorPil",
     {"size": {"shortest_edge": 14}, "crop_size": {"height": 17, "width": 16}}, (30, 41)),
    ("unscaled", "ViTForImageClassification", "ViTImageProcessorPil",
     {"size": {"height": 8, "width": 8}, "do_rescale": False, "do_normalize": False}, (8, 9)),
    ("as_it_is", "ViTForImageClassification", "ViTImageProcessorPil", {"do_resize": False, "image_mean": [0.1, 0.2, 0.3]}, (12, 13)),
    # What a family has by itself, without a file.
    ("own_vit", "ViTForImageClassification", "ViTImageProcessorPil", None, (33, 40)),
    ("own_dinov2", "Dinov2ForImageClassification", "BitImageProcessorPil", None, (33, 40)),
]


def main():
    root = os.path.join(sys.argv[1], "image_processors")
    random = numpy.random.default_rng(1)
    for name, family, processor, options, shape in CASES:
        folder = os.path.join(root, name)
        os.makedirs(folder, exist_ok=True)
        config = {"architectures": [family], "image_size": 16} if options is None else {"architectures": [family]}
        json.dump(config, open(folder + "/config.json", "w"))
        own = {"size": {"height": 16, "width": 16}} if name == "own_vit" else {"size": {"shortest_edge": 16},
                                                                              "crop_size": {"height": 16, "width": 16}}
        prepare = getattr(transformers, processor)(**(own if options is None else options))
        if options is not None:
            prepare.save_pretrained(folder)
        image = Image.fromarray(random.integers(0, 256, (*shape, 3), dtype=numpy.uint8))
        image.save(folder + "/image.png")
        pixels = torch.tensor(prepare(image, return_tensors="np")["pixel_values"][0], dtype=torch.float32)
        save_file({"pixel_values": pixels.contiguous()}, folder + "/pixels.safetensors")
    timm_images(root)
    os.makedirs(os.path.join(sys.argv[1], "pairs"), exist_ok=True)
    pairs(os.path.join(sys.argv[1], "pairs", "clip"))


TIMM = [
    ("timm_vit", "vit_tiny_patch16_224", {"input_size": [3, 16, 16], "interpolation": "bicubic", "crop_pct": 0.9,
                                          "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}, (31, 45)),
    ("timm_resnet", "resnet18.a1_in1k", {"input_size": [3, 20, 20], "interpolation": "bilinear", "crop_pct": 0.875, "crop_mode": "center",
                                         "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225], "first_conv": "conv1"}, (50, 37)),
    ("timm_squash", "resnet50", {"input_size": [3, 14, 18], "interpolation": "bicubic", "crop_pct": 0.7, "crop_mode": "squash",
                                 "mean": [0.1, 0.2, 0.3], "std": [0.4, 0.5, 0.6]}, (29, 24)),
    ("timm_whole", "efficientnet_b0", {"input_size": [3, 21, 21], "interpolation": "bicubic", "crop_pct": 1.0, "crop_mode": "center"}, (64, 33)),
    ("timm_bare", "mobilenetv3_small_100", {"input_size": [3, 24, 24]}, (40, 95)),
]


def timm_images(root):
    """What timm's transforms for evaluation make of images."""
    import timm.data
    random = numpy.random.default_rng(9)
    for name, architecture, said, shape in TIMM:
        folder = os.path.join(root, name)
        os.makedirs(folder, exist_ok=True)
        config = {"architecture": architecture, "num_classes": 3, "label_names": ["a", "b", "c"], "pretrained_cfg": said}
        json.dump(config, open(folder + "/config.json", "w"))
        image = Image.fromarray(random.integers(0, 256, (*shape, 3), dtype=numpy.uint8))
        image.save(folder + "/image.png")
        prepare = timm.data.create_transform(**timm.data.resolve_data_config({}, pretrained_cfg=said), is_training=False)
        save_file({"pixel_values": prepare(image).contiguous()}, folder + "/pixels.safetensors")


def pairs(folder):
    """A small CLIP, images of its own and texts, and what transformers says of them."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    words = {word: i for i, word in enumerate("<s> </s> ? a picture of the cat dog house".split())}
    t = Tokenizer(models.WordLevel(words, unk_token="?"))
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    t.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)])
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=t, pad_token="</s>", eos_token="</s>", bos_token="<s>")
    tower = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2)
    torch.manual_seed(2)
    net = transformers.CLIPModel(transformers.CLIPConfig(
        text_config=dict(tower, vocab_size=10, max_position_embeddings=9, eos_token_id=1, bos_token_id=0, pad_token_id=1),
        vision_config=dict(tower, image_size=12, patch_size=6), projection_dim=8)).eval()
    net.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    prepare = transformers.CLIPImageProcessorPil(size={"shortest_edge": 14}, crop_size={"height": 12, "width": 12})
    prepare.save_pretrained(folder)
    texts = ["a picture of a cat", "the dog", "house"]
    random = numpy.random.default_rng(4)
    images = [Image.fromarray(random.integers(0, 256, (20, 25 + i, 3), dtype=numpy.uint8)) for i in range(2)]
    for i, image in enumerate(images):
        image.save(f"{folder}/{i}.png")
    with torch.no_grad():
        y = net(**tokenizer(texts, padding=True, return_tensors="pt", return_token_type_ids=False),
                pixel_values=torch.tensor(numpy.stack(prepare(images)["pixel_values"]))).logits_per_image
    save_file({"logits": y.contiguous()}, folder + ".safetensors")
    json.dump(texts, open(folder + ".texts.json", "w"))


if __name__ == "__main__":
    main()
