#include "asup/sync/way.h"

#include "asup/sync/replica.h"

namespace asup {

MadeReplica::MadeReplica() = default;
MadeReplica::MadeReplica(MadeReplica&&) noexcept = default;
MadeReplica& MadeReplica::operator=(MadeReplica&&) noexcept = default;
MadeReplica::~MadeReplica() = default;

}  // namespace asup
