// SentencePiece models by Debian's library, which trusts its files: tables that could lead it out of its memory are
// checked before it sees them.
#include <sentencepiece_processor.h>

#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "zoo/text/charsmap.h"
#include "zoo/text/parts.h"

namespace zoo::text {
namespace {

using core::Error;
using core::ErrorCode;
using sentencepiece::SentencePieceProcessor;

/// A field of a protocol buffer: its number and, of one with a length, its bytes.
class Message {
 public:
  explicit Message(std::string_view all) : rest_(all) {}

  bool next() {
    if (rest_.empty()) return false;
    const std::uint64_t key = varint();
    number = key >> 3;
    bytes = {};
    switch (key & 7) {
      case 0:
        varint();
        break;
      case 1:
        take(8);
        break;
      case 2:
        bytes = take(varint());
        break;
      case 5:
        take(4);
        break;
      default:
        throw Error(ErrorCode::corrupt, "is no SentencePiece model");
    }
    return true;
  }

  std::uint64_t number = 0;
  std::string_view bytes;

 private:
  std::string_view take(std::uint64_t count) {
    if (count > rest_.size()) throw Error(ErrorCode::corrupt, "is no SentencePiece model, or cut off");
    const std::string_view out = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return out;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    throw Error(ErrorCode::corrupt, "is no SentencePiece model");
  }

  std::string_view rest_;
};

// Fields of ModelProto, and of NormalizerSpec in it.
constexpr std::uint64_t kPieces = 1;
constexpr std::uint64_t kNormalizer = 3;
constexpr std::uint64_t kDenormalizer = 5;
constexpr std::uint64_t kCharsmap = 2;

void check(std::string_view model) {
  std::uint64_t pieces = 0;
  for (Message field(model); field.next();) {
    if (field.number == kPieces) ++pieces;
    if (field.number != kNormalizer && field.number != kDenormalizer) continue;
    for (Message inner(field.bytes); inner.next();) {
      if (inner.number == kCharsmap && !inner.bytes.empty()) Charsmap table(inner.bytes);
    }
  }
  if (pieces == 0) throw Error(ErrorCode::corrupt, "is no SentencePiece model: it has no pieces");
}

class Pieces final : public TokenModel {
 public:
  Pieces(Vocabulary vocabulary, std::shared_ptr<const SentencePieceProcessor> processor)
      : TokenModel(std::move(vocabulary)), processor_(std::move(processor)) {}

  void encode(std::string_view piece, std::vector<std::int64_t>& ids) const override {
    std::vector<int> found;
    const auto status = processor_->Encode(piece, &found);
    if (!status.ok()) throw Error(ErrorCode::unsupported, "SentencePiece cannot encode the text: " + status.ToString());
    ids.insert(ids.end(), found.begin(), found.end());
  }

 private:
  std::shared_ptr<const SentencePieceProcessor> processor_;
};

/// Runs of pieces by the library, added tokens as they are.
Decoder decoder_of(std::shared_ptr<const SentencePieceProcessor> processor, const Vocabulary& vocabulary) {
  return [processor = std::move(processor), &vocabulary](const std::vector<std::string>& tokens) {
    std::vector<std::string> out;
    std::vector<std::string> run;
    const auto flush = [&] {
      if (run.empty()) return;
      out.emplace_back();
      const auto status = processor->Decode(run, &out.back());
      if (!status.ok())
        throw Error(ErrorCode::unsupported, "SentencePiece cannot decode the tokens: " + status.ToString());
      run.clear();
    };
    for (const std::string& token : tokens) {
      if (vocabulary.id_of(token)) {
        run.push_back(token);
        continue;
      }
      flush();
      out.push_back(token);
    }
    flush();
    return out;
  };
}

PostProcessor ends_of(const SentencePieceProcessor& processor, const SentencePieceOptions& options) {
  const std::int64_t bos = options.bos ? processor.bos_id() : -1;
  const std::int64_t eos = options.eos ? processor.eos_id() : -1;
  return [bos, eos](std::vector<std::int64_t> ids) {
    if (bos >= 0) ids.insert(ids.begin(), bos);
    if (eos >= 0) ids.push_back(eos);
    return ids;
  };
}

std::shared_ptr<SentencePieceProcessor> load(const std::string& model) {
  auto processor = std::make_shared<SentencePieceProcessor>();
  try {
    const auto status = processor->LoadFromSerializedProto(model);
    if (!status.ok())
      throw Error(ErrorCode::corrupt, "SentencePiece cannot load the model: " + core::printable(status.ToString()));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorCode::corrupt, "SentencePiece cannot load the model: " + core::printable(error.what()));
  }
  return processor;
}

}  // namespace

Tokenizer open_sentence_piece(const std::filesystem::path& path, SentencePieceOptions options) {
  const std::string model = read_text(path);
  check(model);
  const std::shared_ptr<SentencePieceProcessor> processor = load(model);
  Vocabulary vocabulary;
  for (int id = 0; id < processor->GetPieceSize(); ++id) vocabulary.add(processor->IdToPiece(id), id);
  auto parts = std::make_shared<TokenizerParts>();
  parts->post_processor = ends_of(*processor, options);
  parts->added = AddedTokens(std::move(options.added), {});
  parts->model = std::make_shared<Pieces>(std::move(vocabulary), processor);
  parts->decoder = decoder_of(processor, parts->model->vocabulary());
  return Tokenizer(std::move(parts));
}

}  // namespace zoo::text
