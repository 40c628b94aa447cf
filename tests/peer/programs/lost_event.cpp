// SPDX-License-Identifier: Apache-2.0
// A race for the thread sanitizer to find: the sender or the receiver does not wait for the other.
// usage: lost_event sender|receiver
#include <string_view>

#include "peer/lost_event.hpp"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  auto const by_sender = std::string_view{argv[1]} == "sender";
  using peer_tests::loser;
  (void)peer_tests::received(by_sender ? loser::sender : loser::receiver, by_sender ? 1 : 0);
}
