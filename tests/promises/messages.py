"""Messages that name no key: what was said about a file that is good, or about another one."""

from situation import add, saved, some_optimizer

# What the answer to each message must speak of.
ABOUT = {
    "lfs_key": ["lfs"],
    "page_key": ["html", "web page"],
    "no_state_dict": ["'state_dict'"],
    "no_eval": ["state dict", "load_state_dict"],
    "magic_number": ["cut", "damaged", "another format", "not a"],
    "central_directory": ["cut", "truncated"],
    "transformers_bin": ["cut", "damaged", "lfs"],
    "out_of_memory": ["memory", "map_location"],
    "device": ["cpu"],
    "groups": ["parameter group", "optimizer"],
    "no_model": ["'model'"],
    "weights_only": ["ckpt fix", "plain"],
    "no_class": ["class"],
    "main_memory": ["mmap"],
    "shared_memory": ["save_model"],
    "whole_model_given": ["state dict"],
    "no_bfloat16": ["bfloat16"],
    "header": ["safetensors"],
    "not_called": ["state dict", "load_state_dict"],
}

MESSAGES = {
    "lfs_key": "_pickle.UnpicklingError: invalid load key, 'v'.",
    "page_key": "_pickle.UnpicklingError: invalid load key, '<'.",
    "no_state_dict": 'Traceback (most recent call last):\n  File "test.py", line 12, in <module>\n'
    "    model.load_state_dict(torch.load('best.pth')['state_dict'])\nKeyError: 'state_dict'",
    "no_eval": "AttributeError: 'collections.OrderedDict' object has no attribute 'eval'",
    "magic_number": "RuntimeError: Invalid magic number; corrupt file?",
    "central_directory": "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
    "transformers_bin": "OSError: Unable to load weights from pytorch checkpoint file for 'model/pytorch_model.bin' at "
    "'model/pytorch_model.bin'. If you tried to load a PyTorch model from a TF 2.0 checkpoint, please set from_tf=True.",
    "out_of_memory": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 7.79 GiB of "
    "which 12.00 MiB is free.",
    "groups": "ValueError: loaded state dict contains a parameter group that doesn't match the size of optimizer's group",
    "no_model": "KeyError: 'model'",
    "weights_only": "_pickle.UnpicklingError: Weights only load failed. This file can still be loaded, to do so you have two options.\n"
    "\tWeightsUnpickler error: Unsupported global: GLOBAL argparse.Namespace was not an allowed global by default.",
    "no_class": "AttributeError: Can't get attribute 'Net' on <module '__main__' (built-in)>",
    "main_memory": "RuntimeError: [enforce fail at alloc_cpu.cpp:114] data. DefaultCPUAllocator: not enough memory: you tried to allocate "
    "9663676416 bytes.",
    "shared_memory": "RuntimeError: Some tensors share memory, this will lead to duplicate memory on disk and potential differences when "
    "loading them again: [{'lm_head.weight', 'transformer.wte.weight'}].",
    "whole_model_given": "TypeError: Expected state_dict to be dict-like, got <class '__main__.LeNet'>.",
    "no_bfloat16": "TypeError: Got unsupported ScalarType BFloat16",
    "header": "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge",
    "not_called": "TypeError: 'collections.OrderedDict' object is not callable",
    "device": "RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are running "
    "on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your storages to the CPU.",
}


def with_optimizer(state):
    return {"model": state, "optimizer": some_optimizer("lenet")}


def add_messages():
    """A good file that was used in the wrong way, and what was said about it."""
    for what, text in MESSAGES.items():
        s = add(
            "lenet",
            "message_" + what,
            saved("lenet", with_optimizer) if what == "groups" else saved("lenet"),
            "error_pipe error_file both_stdin",
            form="message",
            file="best.pth",
            expect="any",
            by_message="any",
            tells=ABOUT[what],
        )
        s.attempt = "raise Exception(" + repr(text) + ")"


def add_all():
    add_messages()
