#include "asup/sync/compressors/coded_momenta.h"

#include "asup/kernels/momentum.h"

namespace asup::sync {

CompressorFactory coded_momenta(const MomentumCode& how) {
  return [how](const CompressorContext& context) {
    const std::string taker = fmt::format("compress {}", kernels::name_of(how.code));
    return std::make_unique<CodedMomenta>(context.communicator, how,
                                          momentum_to_take(context.optimizer, taker));
  };
}

std::string CodedMomenta::description() const {
  return fmt::format("{} of momenta, clip-norm {}", kernels::name_of(how_.code), how_.clip_norm);
}

std::vector<std::string> CodedMomenta::keeps() const { return kept_with_momentum(); }

Work CodedMomenta::leave(const Bucket& bucket) {
  require_one_backward(bucket);
  if (how_.clip_norm > 0) clip_parts(bucket, how_.clip_norm, communicator_.size());
  add_momentum(bucket);
  const auto& [carried, lost] = bucket.kept[0];
  return communicator_.start_all_reduce(bucket.gradients, ReduceOp::average,
                                        {.code = how_.code, .carried = carried, .lost = lost});
}

// u ← m u + g leaves, and Nesterov's m u + g.
void CodedMomenta::add_momentum(const Bucket& bucket) const {
  const auto kind =
      momentum_.nesterov ? kernels::LeavingMomentum::nesterov : kernels::LeavingMomentum::plain;
  kernels::add_momentum(kind, static_cast<float>(momentum_.momentum),
                        static_cast<float*>(bucket.gradients.data), bucket.kept[1],
                        bucket.gradients.count);
}

}  // namespace asup::sync
