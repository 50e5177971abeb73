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
constexpr std::uint64_t kBpe = 2;
constexpr std::uint32_t kNormalizerName = 1, kAddSpace = 3, kRemoveBlanks = 4, kEscapeBlanks = 5;

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

core::ByteVector trainer_bytes(const std::vector<SentencePiece>& pieces) {
  core::ByteVector out;
  bool bytes = false;
  for (const SentencePiece& piece : pieces) bytes = bytes || piece.type == TokenType::byte;
  put_number(out, kModelType, kBpe);
  put_number(out, kByteFallback, bytes ? 1 : 0);
  put_number(out, kUnknownId, place_of(pieces, "<unk>"));
  put_number(out, kBeginId, place_of(pieces, "<s>"));
  put_number(out, kEndId, place_of(pieces, "</s>"));
  put_number(out, kPadId, place_of(pieces, "<pad>"));
  return out;
}

core::ByteVector normalizer_bytes(bool add_space) {
  core::ByteVector out;
  put_bytes(out, kNormalizerName, core::as_bytes(std::string_view("identity")));
  put_number(out, kAddSpace, add_space ? 1 : 0);
  put_number(out, kRemoveBlanks, 0);
  put_number(out, kEscapeBlanks, 1);
  return out;
}

}  // namespace

std::vector<SentencePiece> read_sentence_pieces(core::Bytes model) {
  return core::with_context("the SentencePiece model", [&] {
    const SourcePtr bytes = memory_source(core::ByteVector(model.begin(), model.end()));
    ProtoReader in(*bytes);
    std::vector<SentencePiece> pieces;
    for (ProtoRange rest = in.all(); auto field = in.next(rest);) {
      if (field->is(kPieces, ProtoField::Kind::bytes)) pieces.push_back(read_piece(in, model, field->content));
    }
    if (pieces.empty()) throw Error(ErrorCode::corrupt, "has no pieces");
    return pieces;
  });
}

core::ByteVector write_sentence_pieces(const std::vector<SentencePiece>& pieces, bool add_space) {
  core::ByteVector out;
  for (const SentencePiece& piece : pieces) put_bytes(out, kPieces, piece_bytes(piece));
  put_bytes(out, kTrainerSpec, trainer_bytes(pieces));
  put_bytes(out, kNormalizer, normalizer_bytes(add_space));
  return out;
}

}  // namespace ckpt::detail
