// A model in evaluation mode, for a while. Used from one thread.
#pragma once

#include "asup/models/model.h"

namespace asup::models {

// While it lives, the model is in evaluation mode; then it is in training mode.
class EvaluationMode {
 public:
  explicit EvaluationMode(Model& model) : model_(model) { model_.eval(); }
  ~EvaluationMode() { model_.train(); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  Model& model_;
};

}  // namespace asup::models
