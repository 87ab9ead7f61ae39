// Reads the settings of the verbs transport: see settings.hpp.
#include "transports/verbs/settings.hpp"

#include "src/base/config.hpp"

namespace wreath {

Result<VerbsSettings> VerbsSettings::read() {
  VerbsSettings settings;
  settings.adapters = setting_text(Setting::Hca);
  WREATH_TRY(read_setting(Setting::IbGidIndex, settings.gid_index));
  WREATH_TRY(read_setting(Setting::IbTimeout, settings.timeout));
  if (Status retries = read_setting(Setting::IbRetryCount, settings.retry_count); !retries) {
    Error error = retries.error();
    error.message += ": adapters take 7 for retries without end";
    return error;
  }
  WREATH_TRY(read_setting(Setting::IbServiceLevel, settings.service_level));
  WREATH_TRY(read_setting(Setting::IbTrafficClass, settings.traffic_class));
  WREATH_TRY(read_setting(Setting::IbPkeyIndex, settings.pkey_index));
  WREATH_TRY(read_setting(Setting::IbQueuePairs, settings.queue_pairs));
  WREATH_TRY(read_setting(Setting::Rails, settings.rails));
  const auto relaxed = setting_boolean(Setting::IbRelaxedOrdering);
  if (!relaxed) return relaxed.error();
  settings.relaxed_ordering = *relaxed;
  return settings;
}

}  // namespace wreath
