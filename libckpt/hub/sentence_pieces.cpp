// Field numbers from sentencepiece_model.proto.

#include "libckpt/hub/sentence_pieces.h"

#include "libckpt/io/byte_source.h"
#include "libckpt/io/proto_reader.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::uint32_t kPieces = 1;       ///< of ModelProto
constexpr std::uint32_t kTrainerSpec = 2;  ///< of ModelProto
constexpr std::uint32_t kNormalizer = 3;   ///< of ModelProto
constexpr std::uint32_t kText = 1, kScore = 2, kType = 3;
constexpr std::uint32_t kModelType = 3, kByteFallback = 35, kUnknownId = 40, kBeginId = 41, kEndId = 42, kPadId = 43;
constexpr std::uint64_t kUnigram = 1, kBpe = 2;
constexpr std::uint32_t kNormalizerName = 1, kCharsmap = 2, kAddSpace = 3, kRemoveBlanks = 4, kEscapeBlanks = 5;

SentencePiece read_piece(ProtoReader& in, const core::Bytes model, ProtoRange rest) {
  SentencePiece piece;
  while (auto field = in.next(rest)) {
    if (field->is(kText, ProtoField::Kind::bytes)) piece.text = in.text(*field, field->content.size());
    if (field->is(kScore, ProtoField::Kind::fixed32))
      piece.score = core::load_le<float>(model.data() + field->content.begin);
    if (!field->is(kType, ProtoField::Kind::varint)) continue;
    if (field->value < 1 || field->value > 6) {
      throw Error(ErrorCode::corrupt, "a piece has type " + std::to_string(field->value));
    }
    piece.type = static_cast<TokenType>(field->value);
  }
  return piece;
}

void put_varint(core::ByteVector& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<std::byte>((value & 0x7f) | 0x80));
  out.push_back(static_cast<std::byte>(value));
}

void put_number(core::ByteVector& out, std::uint64_t field, std::uint64_t value) {
  put_varint(out, field << 3);
  put_varint(out, value);
}

void put_bytes(core::ByteVector& out, std::uint64_t field, core::Bytes bytes) {
  put_varint(out, field << 3 | static_cast<std::uint64_t>(ProtoField::Kind::bytes));
  put_varint(out, bytes.size());
  core::append(out, bytes);
}

core::ByteVector piece_bytes(const SentencePiece& piece) {
  core::ByteVector out;
  put_bytes(out, kText, core::as_bytes(piece.text));
  put_varint(out, kScore << 3 | static_cast<std::uint64_t>(ProtoField::Kind::fixed32));
  core::append_le(out, piece.score);
  if (piece.type != TokenType::normal) put_number(out, kType, static_cast<std::uint64_t>(piece.type));
  return out;
}

/// The place of "<s>" and the like; all bits set stand for -1, none.
std::uint64_t place_of(const std::vector<SentencePiece>& pieces, std::string_view text) {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].text == text) return i;
  }
  return ~std::uint64_t{0};
}

core::ByteVector trainer_bytes(const SentenceModel& model) {
  const std::vector<SentencePiece>& pieces = model.pieces;
  core::ByteVector out;
  bool bytes = false;
  for (const SentencePiece& piece : pieces) bytes = bytes || piece.type == TokenType::byte;
  put_number(out, kModelType, model.unigram ? kUnigram : kBpe);
  put_number(out, kByteFallback, bytes ? 1 : 0);
  put_number(out, kUnknownId, place_of(pieces, "<unk>"));
  put_number(out, kBeginId, place_of(pieces, "<s>"));
  put_number(out, kEndId, place_of(pieces, "</s>"));
  put_number(out, kPadId, place_of(pieces, "<pad>"));
  return out;
}

core::ByteVector normalizer_bytes(const SentenceModel& model) {
  core::ByteVector out;
  const std::string_view name = model.charsmap.empty() ? "identity" : "nmt_nfkc";
  put_bytes(out, kNormalizerName, core::as_bytes(name));
  if (!model.charsmap.empty()) put_bytes(out, kCharsmap, model.charsmap);
  put_number(out, kAddSpace, model.add_space ? 1 : 0);
  put_number(out, kRemoveBlanks, model.remove_blanks ? 1 : 0);
  put_number(out, kEscapeBlanks, 1);
  return out;
}

void read_trainer(ProtoReader& in, ProtoRange rest, SentenceModel& model) {
  while (auto field = in.next(rest)) {
    if (field->is(kModelType, ProtoField::Kind::varint)) model.unigram = field->value == kUnigram;
  }
}

void read_normalizer(ProtoReader& in, core::Bytes bytes, ProtoRange rest, SentenceModel& model) {
  while (auto field = in.next(rest)) {
    if (field->is(kAddSpace, ProtoField::Kind::varint)) model.add_space = field->value != 0;
    if (field->is(kRemoveBlanks, ProtoField::Kind::varint)) model.remove_blanks = field->value != 0;
    if (!field->is(kCharsmap, ProtoField::Kind::bytes)) continue;
    const core::Bytes map = bytes.subspan(field->content.begin, field->content.size());
    model.charsmap.assign(map.begin(), map.end());
  }
}

}  // namespace

SentenceModel read_sentence_model(core::Bytes model) {
  return core::with_context("the SentencePiece model", [&] {
    const SourcePtr bytes = memory_source(core::ByteVector(model.begin(), model.end()));
    ProtoReader in(*bytes);
    SentenceModel out;
    for (ProtoRange rest = in.all(); auto field = in.next(rest);) {
      if (field->is(kPieces, ProtoField::Kind::bytes)) out.pieces.push_back(read_piece(in, model, field->content));
      if (field->is(kTrainerSpec, ProtoField::Kind::bytes)) read_trainer(in, field->content, out);
      if (field->is(kNormalizer, ProtoField::Kind::bytes)) read_normalizer(in, model, field->content, out);
    }
    if (out.pieces.empty()) throw Error(ErrorCode::corrupt, "has no pieces");
    return out;
  });
}

core::ByteVector write_sentence_model(const SentenceModel& model) {
  core::ByteVector out;
  for (const SentencePiece& piece : model.pieces) put_bytes(out, kPieces, piece_bytes(piece));
  put_bytes(out, kTrainerSpec, trainer_bytes(model));
  put_bytes(out, kNormalizer, normalizer_bytes(model));
  return out;
}

}  // namespace ckpt::detail
