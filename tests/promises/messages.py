"""Messages that name no key: what was said about a file that is good, or about another one."""

from situation import add, saved

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
    "device": "RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are running "
    "on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your storages to the CPU.",
}


def add_messages():
    """A good file that was used in the wrong way, and what was said about it."""
    for what, text in MESSAGES.items():
        s = add(
            "lenet",
            "message_" + what,
            saved("lenet"),
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
