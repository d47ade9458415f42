#include "asup/precision/autocast.h"

#include <ATen/autocast_mode.h>

namespace asup {

Autocast::Autocast(torch::DeviceType device, Precision precision)
    : device_(device),
      was_on_(at::autocast::is_autocast_enabled(device)),
      type_before_(at::autocast::get_autocast_dtype(device)) {
  at::autocast::increment_nesting();
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device, precision != Precision::fp32);
  if (precision != Precision::fp32)
    at::autocast::set_autocast_dtype(device, scalar_type_of(precision));
}

Autocast::~Autocast() {
  at::autocast::decrement_nesting();
  at::autocast::clear_cache();
  at::autocast::set_autocast_dtype(device_, type_before_);
  at::autocast::set_autocast_enabled(device_, was_on_);
}

}  // namespace asup
