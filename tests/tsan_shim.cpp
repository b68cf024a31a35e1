// Tells the thread sanitizer about CAF, whose packaged library is not instrumented.
//
// Mailboxes and reference counts synchronise by atomics inside that library, so every message looks
// like a race. Each function below stands before the library's own of the same name (the program
// exports it), calls that one or does the same, and states the happens-before edge it establishes:
// what the sender did before enqueue is visible to whoever consumes, what the holders of a
// reference did is visible to whoever frees. A race in our own code is still found: these edges
// exist in truth.
//
// Linked with -rdynamic and -ldl into every program that uses actors, and only when
// GRAPEVINE_SANITIZE contains thread. The symbol names are those of CAF 0.17.
#include <dlfcn.h>

#include <caf/all.hpp>

#include "kernels/base/check.hpp"

extern "C" {
void __tsan_acquire(void*);
void __tsan_release(void*);

// Two loops that dial for the first time at once: the one that is first fills a list that is local
// to a function of KJ's, behind a guard in that library, which nobody sees either. The queues of
// CAF's own scheduler, of systems that are not ours, have spin locks in that library.
const char* __tsan_default_suppressions() {
  return "race:kj::_::CidrRange::CidrRange\n"
         "race:caf::scheduler::worker<caf::policy::work_stealing>\n"
         "race:caf::detail::double_ended_queue\n";
}
}

namespace {

template <class Function>
Function next_of(const char* symbol) {
  void* found = dlsym(RTLD_NEXT, symbol);
  GV_CHECK(found != nullptr);
  return reinterpret_cast<Function>(found);
}

}  // namespace

#define GV_ENQUEUE(actor) \
  "_ZN3caf" actor         \
  "7enqueueESt10unique_ptrINS_15mailbox_elementENS_6detail8disposerEEPNS_14execution_unitE"

namespace caf {

void scheduled_actor::enqueue(mailbox_element_ptr element, execution_unit* unit) {
  using Next = void (*)(scheduled_actor*, mailbox_element_ptr, execution_unit*);
  static const auto next = next_of<Next>(GV_ENQUEUE("15scheduled_actor"));
  __tsan_release(this);
  __tsan_release(static_cast<memory_managed*>(element.get()));
  next(this, std::move(element), unit);
}

void blocking_actor::enqueue(mailbox_element_ptr element, execution_unit* unit) {
  using Next = void (*)(blocking_actor*, mailbox_element_ptr, execution_unit*);
  static const auto next = next_of<Next>(GV_ENQUEUE("14blocking_actor"));
  __tsan_release(this);
  __tsan_release(static_cast<memory_managed*>(element.get()));
  next(this, std::move(element), unit);
}

intrusive::task_result blocking_actor::mailbox_visitor::operator()(mailbox_element& element) {
  using Next = intrusive::task_result (*)(mailbox_visitor*, mailbox_element&);
  static const auto next =
      next_of<Next>("_ZN3caf14blocking_actor15mailbox_visitorclERNS_15mailbox_elementE");
  __tsan_acquire(self);
  return next(this, element);
}

void scheduled_actor::launch(execution_unit* unit, bool lazy, bool hide) {
  using Next = void (*)(scheduled_actor*, execution_unit*, bool, bool);
  static const auto next = next_of<Next>("_ZN3caf15scheduled_actor6launchEPNS_14execution_unitEbb");
  __tsan_release(this);
  next(this, unit, lazy, hide);
}

bool scheduled_actor::activate(execution_unit* unit) {
  using Next = bool (*)(scheduled_actor*, execution_unit*);
  static const auto next = next_of<Next>("_ZN3caf15scheduled_actor8activateEPNS_14execution_unitE");
  __tsan_acquire(this);
  const bool active = next(this, unit);
  __tsan_release(this);
  return active;
}

invoke_message_result scheduled_actor::consume(mailbox_element& element) {
  using Next = invoke_message_result (*)(scheduled_actor*, mailbox_element&);
  static const auto next = next_of<Next>("_ZN3caf15scheduled_actor7consumeERNS_15mailbox_elementE");
  __tsan_acquire(this);
  return next(this, element);
}

// An actor's work on one message happens before its work on the next one, on any thread: the
// library orders them by its mailbox.
scheduled_actor::activation_result scheduled_actor::reactivate(mailbox_element& element) {
  using Next = activation_result (*)(scheduled_actor*, mailbox_element&);
  static const auto next =
      next_of<Next>("_ZN3caf15scheduled_actor10reactivateERNS_15mailbox_elementE");
  __tsan_acquire(this);
  const activation_result result = next(this, element);
  __tsan_release(this);
  return result;
}

// Whoever ends an actor frees what is left in its mailbox.
bool scheduled_actor::cleanup(error&& reason, execution_unit* unit) {
  using Next = bool (*)(scheduled_actor*, error&&, execution_unit*);
  static const auto next =
      next_of<Next>("_ZN3caf15scheduled_actor7cleanupEONS_5errorEPNS_14execution_unitE");
  __tsan_acquire(this);
  return next(this, std::move(reason), unit);
}

// A message may come after that and before the mailbox is closed, which then frees it.
void memory_managed::request_deletion(bool) const noexcept {
  __tsan_acquire(const_cast<memory_managed*>(this));
  delete this;
}

// So does an actor that finds itself at its end.
bool scheduled_actor::finalize() {
  using Next = bool (*)(scheduled_actor*);
  static const auto next = next_of<Next>("_ZN3caf15scheduled_actor8finalizeEv");
  __tsan_acquire(this);
  return next(this);
}

// The counts are written out: whose decrement is the last one frees, and nothing but the decrement
// says who has let go before it.

void ref_counted::deref() const noexcept {
  if (rc_.fetch_sub(1, std::memory_order_acq_rel) == 1) request_deletion(true);
}

void intrusive_ptr_release_weak(actor_control_block* block) {
  if (block->weak_refs.fetch_sub(1, std::memory_order_acq_rel) == 1) block->block_dtor(block);
}

void intrusive_ptr_release(actor_control_block* block) {
  if (block->strong_refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  block->data_dtor(block->get());
  intrusive_ptr_release_weak(block);
}

}  // namespace caf
