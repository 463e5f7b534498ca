#include "serving/fleet/routes/fleet_routes.h"

#include <algorithm>

#include "base/check.h"
#include "serving/core/models.h"

namespace lagoon {

void FleetRoutes::Set(const std::string& model, std::vector<FleetRoute> routes) {
  for (const FleetRoute& route : routes) LAGOON_CHECK(route.fraction > 0);
  const MutexLock lock(mutex_);
  models_[model].routes = std::move(routes);
}

std::vector<FleetRoute> FleetRoutes::Of(const std::string& model) const {
  const MutexLock lock(mutex_);
  const auto found = models_.find(model);
  return found == models_.end() ? std::vector<FleetRoute>() : found->second.routes;
}

std::map<std::string, std::vector<FleetRoute>> FleetRoutes::All() const {
  const MutexLock lock(mutex_);
  std::map<std::string, std::vector<FleetRoute>> all;
  for (const auto& [name, model] : models_) {
    if (!model.routes.empty()) all[name] = model.routes;
  }
  return all;
}

FleetRoutes::Candidates FleetRoutes::CandidatesOf(Model& model) {
  Candidates among;
  for (const FleetRoute& route : model.routes) {
    among.members.push_back(route.member);
    among.states.push_back({route.fraction, model.loads[route.member].in_flight, /*ready=*/true});
  }
  for (double& draw : among.draws) draw = random_.Uniform();
  return among;
}

std::optional<std::size_t> FleetRoutes::Choose(Candidates& among, const Look& look,
                                               std::optional<std::size_t> avoid) {
  std::optional<std::size_t> avoided;
  std::vector<std::string> latest(among.members.size());
  std::string highest;
  for (std::size_t i = 0; i < among.members.size(); ++i) {
    if (avoid == among.members[i]) avoided = i;
    if (!look) continue;
    Seen seen = look(among.members[i]);
    among.states[i].ready = seen.ready;
    among.states[i].queue = std::max(among.states[i].queue, seen.queue);
    if (seen.ready && IsHigherVersion(seen.latest, highest)) highest = seen.latest;
    latest[i] = std::move(seen.latest);
  }
  for (std::size_t i = 0; i < among.members.size(); ++i) {
    if (!latest[i].empty() && latest[i] != highest) among.states[i].ready = false;
  }
  const auto picked = PickReplica(among.states, avoided, among.draws);
  if (!picked) return std::nullopt;
  return among.members[*picked];
}

std::optional<std::size_t> FleetRoutes::Routed(const Model& model, std::size_t member,
                                               std::optional<std::size_t> avoid) {
  std::optional<std::size_t> other;
  for (const FleetRoute& route : model.routes) {
    if (route.member == member) return member;
    if (route.member != avoid && !other) other = route.member;
  }
  return other;
}

std::optional<FleetRoutes::Begun> FleetRoutes::Begin(const std::string& name, const Look& look) {
  Candidates among;
  {
    const MutexLock lock(mutex_);
    const auto found = models_.find(name);
    if (found == models_.end() || found->second.routes.empty()) return std::nullopt;
    among = CandidatesOf(found->second);
  }
  const bool alone = among.members.size() == 1;
  std::size_t member = among.members.front();
  if (!alone) member = Choose(among, look, std::nullopt).value_or(member);
  const MutexLock lock(mutex_);
  const auto found = models_.find(name);
  if (found == models_.end()) return std::nullopt;  // forgotten meanwhile
  Model* const model = &found->second;
  const std::optional<std::size_t> routed = Routed(*model, member, std::nullopt);
  if (!routed) return std::nullopt;
  return Count(*model, *routed, alone);
}

std::optional<FleetRoutes::Begun> FleetRoutes::BeginAt(const std::string& name,
                                                       std::size_t member) {
  const MutexLock lock(mutex_);
  const auto found = models_.find(name);
  if (found == models_.end()) return std::nullopt;
  Model& model = found->second;
  if (Routed(model, member, std::nullopt) != member) return std::nullopt;
  return Count(model, member, /*alone=*/true);
}

FleetRoutes::Begun FleetRoutes::Count(Model& model, std::size_t member, bool alone) {
  Load& load = model.loads[member];
  ++load.in_flight;
  ++load.requests;
  const RequestHandle handle{next_++};
  flights_[handle] = {.model = &model, .load = &load, .member = member};
  return {handle, member, alone};
}

std::optional<std::size_t> FleetRoutes::Again(RequestHandle handle, const Look& look) {
  Candidates among;
  std::size_t before = 0;
  {
    const MutexLock lock(mutex_);
    const auto flight = flights_.find(handle);
    if (flight == flights_.end() || flight->second.cancelled || flight->second.again) {
      return std::nullopt;
    }
    before = flight->second.member;
    among = CandidatesOf(*flight->second.model);
  }
  std::optional<std::size_t> member = Choose(among, look, before);
  if (!member) return std::nullopt;
  const MutexLock lock(mutex_);
  const auto flight = flights_.find(handle);
  if (flight == flights_.end() || flight->second.cancelled) return std::nullopt;
  Flight& again = flight->second;
  member = Routed(*again.model, *member, before);
  if (!member) return std::nullopt;
  --again.load->in_flight;
  again.load = &again.model->loads[*member];
  ++again.load->in_flight;
  ++again.load->requests;
  again.member = *member;
  again.again = true;
  again.of_member = {};
  return member;
}

bool FleetRoutes::Taken(RequestHandle handle, std::size_t member, RequestHandle of_member) {
  const MutexLock lock(mutex_);
  const auto flight = flights_.find(handle);
  if (flight == flights_.end()) return false;         // answered
  if (flight->second.member != member) return false;  // on its way to another member
  flight->second.of_member = of_member;
  return flight->second.cancelled;
}

void FleetRoutes::End(RequestHandle handle) {
  const MutexLock lock(mutex_);
  const auto flight = flights_.find(handle);
  if (flight == flights_.end()) return;
  --flight->second.load->in_flight;
  flights_.erase(flight);
}

std::optional<std::pair<std::size_t, RequestHandle>> FleetRoutes::Cancel(RequestHandle handle) {
  const MutexLock lock(mutex_);
  const auto flight = flights_.find(handle);
  if (flight == flights_.end()) return std::nullopt;
  flight->second.cancelled = true;
  if (flight->second.of_member == RequestHandle{}) return std::nullopt;
  return std::pair(flight->second.member, flight->second.of_member);
}

std::map<std::string, std::map<std::size_t, FleetRoutes::Load>> FleetRoutes::Loads() const {
  const MutexLock lock(mutex_);
  std::map<std::string, std::map<std::size_t, Load>> loads;
  for (const auto& [name, model] : models_) loads[name] = model.loads;
  return loads;
}

std::vector<RequestHandle> FleetRoutes::InFlight(const std::string& model,
                                                 std::size_t member) const {
  const MutexLock lock(mutex_);
  std::vector<RequestHandle> handles;
  const auto found = models_.find(model);
  if (found == models_.end()) return handles;
  const auto load = found->second.loads.find(member);
  if (load == found->second.loads.end() || load->second.in_flight == 0) return handles;
  for (const auto& [handle, flight] : flights_) {
    if (flight.load == &load->second) handles.push_back(handle);
  }
  return handles;
}

bool FleetRoutes::Forget(const std::string& model) {
  const MutexLock lock(mutex_);
  const auto found = models_.find(model);
  if (found == models_.end()) return true;
  const bool idle = std::ranges::all_of(
      found->second.loads, [](const auto& load) { return load.second.in_flight == 0; });
  if (!idle || !found->second.routes.empty()) return false;
  models_.erase(found);
  return true;
}

bool FleetRoutes::Leave(std::size_t member) {
  const MutexLock lock(mutex_);
  bool idle = true;
  for (auto& [name, model] : models_) {
    std::erase_if(model.routes,
                  [member](const FleetRoute& route) { return route.member == member; });
    const auto load = model.loads.find(member);
    if (load == model.loads.end()) continue;
    if (load->second.in_flight > 0) {
      idle = false;
    } else {
      model.loads.erase(load);
    }
  }
  return idle;
}

}  // namespace lagoon
