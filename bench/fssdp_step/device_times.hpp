// SPDX-License-Identifier: Apache-2.0
/// What one device did in one iteration, and how long that took.
#pragma once

namespace step {

/// Times of one device in one iteration; those of a host beside emulated devices, slowed down.
struct device_times {
  double exposed = 0;
  double moving = 0;
  double tokens = 0;
  double solving = 0;   ///< of solver and planner that the device waits for; not slowed
  double planning = 0;  ///< of those on other threads, likewise
  double replica_slots = 0;
  double expert_bytes = 0;   ///< over all devices
  double token_rows = 0;     ///< that left this device, one way
  double between = 0;        ///< for which it waits for other groups
  double between_bytes = 0;  ///< that it sends to them
  double processor = 0;      ///< of all threads of its process, counted once
};

}  // namespace step
