#include "libckpt/analyze/known_messages.h"

#include <algorithm>
#include <array>

namespace ckpt {
namespace {

using About = KnownMessage::About;

constexpr std::string_view kLook = "look at the file itself: ckpt why FILE";
constexpr std::string_view kAgain =
    "download or copy it again (curl -L -C - -o FILE URL goes on where it stopped); what is whole can be saved with "
    "ckpt rescue FILE";
constexpr std::string_view kCut = "the file is shorter than it should be: a download, a copy or a save was cut off";
constexpr std::string_view kClasses =
    "the file holds objects of classes that this program does not have, as a model that was saved whole "
    "(torch.save(model)) does; PyTorch needs their source code to load them";
constexpr std::string_view kPlain = "write the tensors alone, without running any code of the file: ckpt fix FILE";
constexpr std::string_view kStateDict =
    "the file holds a state dict, which is the weights alone, and the program uses it as if it were the model";
constexpr std::string_view kBuild = "build the model first, then: model.load_state_dict(torch.load('FILE'))";
constexpr std::string_view kWhere =
    "see what the file holds: ckpt info FILE; with the model's name: ckpt why FILE "
    "--for NAME";
constexpr std::string_view kMemory = "there is not enough memory for the file and the model at once";
constexpr std::string_view kMap =
    "let PyTorch read each tensor when it is used: torch.load('FILE', "
    "map_location='cpu', mmap=True)";
constexpr std::string_view kNotSafetensors =
    "the file is not a safetensors file: it may be a git-LFS pointer, a web page or a PyTorch file of another name";

/// What is more exact stands first.
constexpr auto kMessages = std::to_array<KnownMessage>({
    {"invalid load key, 'v'", About::lfs_pointer,
     "the file begins with 'v', as a git-LFS pointer does: the weights themselves were not fetched", "git lfs pull"},
    {"invalid load key, '<'", About::web_page,
     "the file begins with '<': it is a web page that was saved in place of the weights",
     "download the file itself, logged in where that is needed: curl -L -o FILE URL"},
    {"invalid load key, '\\x1f'", About::packed, "the file begins with '\\x1f': it is packed with gzip",
     "gunzip -c < FILE > unpacked.pth"},
    {"invalid load key, 'P'", About::damaged,
     "the file begins with 'P': it is a zip archive, as PyTorch writes since version 1.6, and what reads it is older "
     "or "
     "expects a plain pickle",
     "read it with torch.load of PyTorch 1.6 or newer"},
    {"invalid load key, '{'", About::web_page, "the file begins with '{': it is JSON text and not weights", kLook},
    {"invalid load key, '\\x00'", About::cut, "the file begins with zeros: its space was reserved and never filled",
     kAgain},
    {"invalid load key", About::damaged, "the file does not begin as a PyTorch file does", kLook},
    {"Invalid magic number; corrupt file?", About::damaged,
     "the file is a pickle that torch.save did not write (pickle.dump, joblib or another program), or it is damaged",
     kLook},
    {"failed finding central directory", About::cut,
     "the file is a zip archive that lost its end: a download, a copy or a save was cut off", kAgain},
    {"unexpected EOF", About::cut, kCut, kAgain},
    {"pickle data was truncated", About::cut, kCut, kAgain},
    {"Ran out of input", About::cut, "the file is empty or was cut off", kAgain},
    {"storage has wrong byte size", About::cut, kCut, kAgain},
    {"storage has wrong size", About::cut, kCut, kAgain},
    {"MetadataIncompleteBuffer", About::cut, kCut, kAgain},
    {"incomplete metadata", About::cut, kCut, kAgain},
    {"InvalidHeaderLength", About::cut, kCut, kAgain},
    {"invalid header length", About::cut, kCut, kAgain},
    {"HeaderTooSmall", About::cut, kCut, kAgain},
    {"header too small", About::cut, kCut, kAgain},
    {"HeaderTooLarge", About::damaged, kNotSafetensors, kLook},
    {"header too large", About::damaged, kNotSafetensors, kLook},
    {"InvalidHeader", About::damaged, kNotSafetensors, kLook},
    {"Error while deserializing header", About::damaged, kNotSafetensors, kLook},
    {"invalid header or archive is corrupted", About::damaged, "the file is a damaged zip archive", kLook},
    {"with TorchScript archives passed to ``torch.load``", About::program,
     "the file is a TorchScript archive, which torch.load refuses since PyTorch 2.6",
     "its weights are torch.jit.load('FILE', map_location='cpu').state_dict()"},
    {"Can't get attribute '", About::classes, kClasses, kPlain},
    {"ModuleNotFoundError: No module named", About::classes, kClasses, kPlain},
    {"Unsupported global: GLOBAL", About::classes,
     "the file names classes that torch.load does not take by itself (weights_only=True, the default since 2.6)",
     kPlain},
    {"Weights only load failed", About::classes,
     "the file holds more than tensors and plain values, which torch.load refuses since PyTorch 2.6", kPlain},
    {"Unable to load weights from pytorch checkpoint file", About::damaged,
     "transformers could not read the file as a PyTorch file: it may be a git-LFS pointer, cut off, or of another "
     "format",
     kLook},
    {"CUDA out of memory", About::memory,
     "the GPU does not have enough free memory: torch.load puts tensors back on the GPU that they were saved on",
     "load them into main memory first: torch.load('FILE', map_location='cpu')"},
    {"DefaultCPUAllocator: ", About::memory, kMemory, kMap},
    {"MemoryError", About::memory, kMemory, kMap},
    {"KeyError: 'state_dict'", About::place,
     "the program takes the weights from under 'state_dict', which the file does not have: they lie at its top or "
     "under "
     "another name",
     kWhere},
    {"KeyError: 'model'", About::place,
     "the program takes the weights from under 'model', which the file does not have: they lie at its top or under "
     "another name",
     kWhere},
    {"KeyError: 'model_state_dict'", About::place,
     "the program takes the weights from under 'model_state_dict', which the file does not have: they lie at its top "
     "or under "
     "another name",
     kWhere},
    {"KeyError: 'net'", About::place,
     "the program takes the weights from under 'net', which the file does not have: they lie at its top or under "
     "another name",
     kWhere},
    {"OrderedDict' object has no attribute '", About::program, kStateDict, kBuild},
    {"'dict' object has no attribute 'eval'", About::program, kStateDict, kBuild},
    {"'dict' object has no attribute 'to'", About::program, kStateDict, kBuild},
    {"'dict' object has no attribute 'cuda'", About::program, kStateDict, kBuild},
    {"'dict' object has no attribute 'parameters'", About::program, kStateDict, kBuild},
    {"'dict' object has no attribute 'forward'", About::program, kStateDict, kBuild},
    {"'dict' object has no attribute 'train'", About::program, kStateDict, kBuild},
    {"OrderedDict' object is not callable", About::program, kStateDict, kBuild},
    {"'dict' object is not callable", About::program, kStateDict, kBuild},
    {"'utf-8' codec can't decode byte", About::program, "the program reads a binary file as if it were text",
     "read a PyTorch file with torch.load('FILE'), any other with open('FILE', 'rb'); ckpt info FILE says which it is"},
});

}  // namespace

const KnownMessage* find_known_message(std::string_view text) {
  const auto* found = std::find_if(kMessages.begin(), kMessages.end(), [&](const KnownMessage& message) {
    return text.find(message.part) != std::string_view::npos;
  });
  return found == kMessages.end() ? nullptr : found;
}

}  // namespace ckpt
