#include "libckpt/blocks/block_codec.h"

#include <algorithm>
#include <array>

#include "libckpt/blocks/block_functions.h"

namespace ckpt::detail {
namespace {

constexpr std::array kCodecs = {
    BlockCodec{"Q4_0", 32, 18, unpack_q4_0, pack_q4_0},      BlockCodec{"Q4_1", 32, 20, unpack_q4_1, pack_q4_1},
    BlockCodec{"Q5_0", 32, 22, unpack_q5_0, pack_q5_0},      BlockCodec{"Q5_1", 32, 24, unpack_q5_1, pack_q5_1},
    BlockCodec{"Q8_0", 32, 34, unpack_q8_0, pack_q8_0},      BlockCodec{"Q8_1", 32, 36, unpack_q8_1, nullptr},
    BlockCodec{"Q2_K", 256, 84, unpack_q2_k, pack_q2_k},     BlockCodec{"Q3_K", 256, 110, unpack_q3_k, pack_q3_k},
    BlockCodec{"Q4_K", 256, 144, unpack_q4_k, pack_q4_k},    BlockCodec{"Q5_K", 256, 176, unpack_q5_k, pack_q5_k},
    BlockCodec{"Q6_K", 256, 210, unpack_q6_k, pack_q6_k},    BlockCodec{"Q8_K", 256, 292, unpack_q8_k, nullptr},
    BlockCodec{"IQ2_XXS", 256, 66, unpack_iq2_xxs, nullptr}, BlockCodec{"IQ2_XS", 256, 74, unpack_iq2_xs, nullptr},
    BlockCodec{"IQ3_XXS", 256, 98, unpack_iq3_xxs, nullptr}, BlockCodec{"IQ1_S", 256, 50, unpack_iq1_s, nullptr},
    BlockCodec{"IQ4_NL", 32, 18, unpack_iq4_nl, nullptr},    BlockCodec{"IQ3_S", 256, 110, unpack_iq3_s, nullptr},
    BlockCodec{"IQ2_S", 256, 82, unpack_iq2_s, nullptr},     BlockCodec{"IQ4_XS", 256, 136, unpack_iq4_xs, nullptr},
    BlockCodec{"IQ1_M", 256, 56, unpack_iq1_m, nullptr},     BlockCodec{"TQ1_0", 256, 54, unpack_tq1_0, nullptr},
    BlockCodec{"TQ2_0", 256, 66, unpack_tq2_0, nullptr},     BlockCodec{"MXFP4", 32, 17, unpack_mxfp4, nullptr},
    BlockCodec{"NVFP4", 64, 36, unpack_nvfp4, nullptr},      BlockCodec{"Q1_0", 128, 18, unpack_q1_0, nullptr},
    BlockCodec{"Q2_0", 64, 18, unpack_q2_0, nullptr},
};

}  // namespace

const BlockCodec* find_block_codec(std::string_view name) {
  auto found = std::ranges::find(kCodecs, name, &BlockCodec::name);
  return found == kCodecs.end() ? nullptr : &*found;
}

std::span<const BlockCodec> block_codecs() {
  return kCodecs;
}

}  // namespace ckpt::detail
