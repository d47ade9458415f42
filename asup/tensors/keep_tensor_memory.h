// For programs that train.
#pragma once

namespace asup {

// From now on memory that large tensors free is kept for others of this process, in huge pages. The
// system would clear each page that it hands out, and a step of training asks it for as many as its
// gradients and activations have. The process never has more than it once used. A second call does
// nothing.
void keep_tensor_memory();

}  // namespace asup
