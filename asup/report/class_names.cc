#include "asup/report/class_names.h"

namespace asup::report {
namespace {

using Names = std::vector<std::string>;

// https://github.com/zalandoresearch/fashion-mnist#labels
const Names kFashion{"T-shirt", "Trouser", "Pullover", "Dress", "Coat",
                     "Sandal",  "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};

// https://www.cs.toronto.edu/~kriz/cifar.html
const Names kCifar10{"airplane", "automobile", "bird",  "cat",  "deer",
                     "dog",      "frog",       "horse", "ship", "truck"};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

std::vector<std::string> class_names(const std::string& dataset, int classes) {
  if (classes == 10 && has(dataset, "fashion")) return kFashion;
  if (classes == 10 && has(dataset, "cifar")) return kCifar10;
  Names names;
  for (int i = 0; i < classes; ++i) names.push_back(std::to_string(i));
  return names;
}

}  // namespace asup::report
