#pragma once
// Slots of the neural-network family (convolution, pooling, normalisation, softmax, embedding, losses): filled per
// backend like the tables of op_tables.h. Thread safety: constant after start-up.

namespace core {

struct NnTable {};

}  // namespace core
