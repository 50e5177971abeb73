#pragma once
// Warnings: what PyTorch would print with warnings.warn. The library says them here; the program decides what happens.
// Thread safety: both functions. Use: core::set_warning_handler([](const std::string& text) { std::cerr << text; });

#include <functional>
#include <string>

namespace core {

using WarningHandler = std::function<void(const std::string& text)>;

/// Replaces the handler and returns the one before. An empty handler drops warnings. Default: a line on standard error.
WarningHandler set_warning_handler(WarningHandler handler);
/// Hands `text` to the handler.
void warn(const std::string& text);

}  // namespace core
