// Reads the settings of the verbs transport: see settings.hpp.
#include "transports/verbs/settings.hpp"

#include "src/base/config.hpp"

namespace wreath {
namespace {

template <typename T>
Status read_number(Setting setting, T& into) {
  const auto value = setting_integer(setting);
  if (!value) return value.error();
  into = static_cast<T>(*value);
  return {};
}

}  // namespace

Result<VerbsSettings> VerbsSettings::read() {
  VerbsSettings settings;
  settings.adapters = setting_text(Setting::Hca);
  WREATH_TRY(read_number(Setting::IbGidIndex, settings.gid_index));
  WREATH_TRY(read_number(Setting::IbTimeout, settings.timeout));
  if (Status retries = read_number(Setting::IbRetryCount, settings.retry_count); !retries) {
    Error error = retries.error();
    error.message += ": adapters take 7 for retries without end";
    return error;
  }
  WREATH_TRY(read_number(Setting::IbServiceLevel, settings.service_level));
  WREATH_TRY(read_number(Setting::IbTrafficClass, settings.traffic_class));
  WREATH_TRY(read_number(Setting::IbPkeyIndex, settings.pkey_index));
  WREATH_TRY(read_number(Setting::IbQueuePairs, settings.queue_pairs));
  WREATH_TRY(read_number(Setting::Rails, settings.rails));
  const auto relaxed = setting_boolean(Setting::IbRelaxedOrdering);
  if (!relaxed) return relaxed.error();
  settings.relaxed_ordering = *relaxed;
  return settings;
}

}  // namespace wreath
