#pragma once
// A port for a server that starts a moment later, in another process.
// Use: options.environment["MASTER_PORT"] = std::to_string(test::free_port());

namespace test {

/// A port of loopback that nobody listens at. The system gives none of these to those who ask for any port, so that
/// the thousands of connections of a test beside it do not take it meanwhile. Throws std::runtime_error without one.
int free_port();

}  // namespace test
