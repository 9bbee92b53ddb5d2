//! The conformance tests of storage engines: one test function per requirement of [`Storage`] and
//! its parts, and a macro that runs them all on an engine.
//!
//! ```ignore
//! toolcrib_store::storage_suite!(sqlite, open_a_new_store().await);
//! ```
//!
//! The expression is evaluated once per test and yields a pair: an empty engine, and a guard that
//! must live as long as the engine (a directory, or `()`). The engine seals, if it can. The crate
//! that uses the macro needs `tokio` with `macros` and `rt`.
//!
//! [`Storage`]: toolcrib_core::store::Storage
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "these functions are tests")]

pub mod approval_store;
pub mod attack;
pub mod bridge_store;
pub mod catalog_store;
pub mod client_session_store;
pub mod connect_store;
pub mod credential_store;
pub mod event_log;
pub mod grant_store;
pub mod idempotency_store;
pub mod key_store;
pub mod lifecycle;
pub mod limiter;
pub mod pin_store;
pub mod quota_store;
pub mod record_store;
pub mod run_store;
pub mod saved_store;
pub mod segment_store;

use chrono::{DateTime, Utc};
use toolcrib_core::clock::Timestamp;

/// A fixed time plus `millis`.
pub fn moment(millis: i64) -> Timestamp {
    DateTime::<Utc>::from_timestamp_millis(1_760_000_000_000 + millis).unwrap()
}

/// Runs every test on an engine.
#[macro_export]
macro_rules! storage_suite {
    ($name:ident, $engine:expr) => {
        mod $name {
            #[expect(unused_imports, reason = "only some expressions use these imports")]
            use super::*;
            $crate::conformance_tests!(
                event_log,
                $engine,
                [
                    an_event_comes_back_as_it_was_appended,
                    positions_rise_in_the_order_of_the_append,
                    sequences_count_per_run_and_tenant,
                    an_append_is_atomic,
                    nothing_appended_is_nothing_stored,
                    a_query_selects_by_tenant_and_run,
                    a_reader_pages_with_a_cursor,
                    the_newest_come_in_ascending_order,
                    a_read_is_capped,
                    concurrent_appends_leave_no_gap,
                    positions_of_a_tenant_have_no_gaps,
                    a_tenants_cursor_stands_in_its_own_log,
                    concurrent_tenants_do_not_move_each_other,
                    events_are_read_by_position,
                ]
            );
            $crate::conformance_tests!(
                segment_store,
                $engine,
                [
                    a_segment_comes_back_as_it_was_put,
                    the_first_segment_of_a_number_is_kept,
                    the_oldest_segments_are_removed,
                ]
            );
            $crate::conformance_tests!(
                key_store,
                $engine,
                [
                    a_key_comes_back_as_it_was_inserted,
                    sessions_leave_the_store_a_day_after_they_expire,
                    keys_are_listed_by_creation,
                    the_same_id_or_digest_is_a_conflict,
                    a_principal_is_new_once,
                    a_key_is_revoked_once,
                    a_key_is_followed_by_another,
                    a_rotation_that_is_refused_changes_nothing,
                    of_parallel_rotations_one_succeeds,
                    the_last_use_is_noted_and_never_goes_back,
                    the_epoch_changes_with_every_change,
                    the_keys_changed_since_an_epoch_are_returned,
                ]
            );
            $crate::conformance_tests!(
                catalog_store,
                $engine,
                [
                    an_unknown_source_has_no_catalog,
                    the_last_catalog_is_the_one_that_counts,
                    sources_do_not_share_a_catalog,
                ]
            );
            $crate::conformance_tests!(
                pin_store,
                $engine,
                [
                    only_the_first_form_is_trusted,
                    the_newest_form_that_differs_is_noted_once,
                    an_approval_is_of_the_form_that_waits,
                    earlier_forms_remain_approved_only_on_request,
                    pins_are_of_one_source_and_sorted,
                    the_pins_epoch_rises_with_every_change,
                ]
            );
            $crate::conformance_tests!(
                credential_store,
                $engine,
                [
                    a_credential_comes_back_as_it_was_put,
                    an_owner_is_matched_exactly,
                    the_same_name_or_id_is_a_conflict,
                    a_rotation_counts_only_over_what_was_seen,
                    what_is_removed_is_gone,
                    credentials_are_listed_by_owner_and_name,
                ]
            );
            $crate::conformance_tests!(
                grant_store,
                $engine,
                [
                    a_grant_comes_back_as_it_was_put,
                    a_place_has_one_grant,
                    the_earliest_grant_names_the_issuer,
                    a_tenant_has_a_grant_beside_its_principals,
                    the_last_use_of_a_grant_is_kept,
                    a_lease_has_one_holder,
                    of_many_that_lease_a_grant_one_does,
                    a_change_counts_only_over_what_was_seen,
                    an_authorization_is_taken_once,
                    of_many_that_take_an_authorization_one_does,
                    authorizations_are_bounded,
                    expired_rows_are_swept,
                ]
            );
            $crate::conformance_tests!(
                connect_store,
                $engine,
                [
                    a_link_is_taken_once,
                    of_many_that_take_a_link_one_does,
                    links_are_bounded,
                    links_made_at_once_are_bounded,
                    a_client_comes_back_as_it_was_put,
                ]
            );
            $crate::conformance_tests!(
                bridge_store,
                $engine,
                [
                    an_item_comes_back_as_it_was_added,
                    an_item_changes_only_over_what_was_seen,
                    of_many_that_change_an_item_one_does,
                    an_item_is_taken_once,
                    items_are_bounded,
                    grants_are_listed_by_their_person,
                ]
            );
            $crate::approval_store_suite!($engine);
            $crate::run_store_suite!($engine);
            $crate::conformance_tests!(
                record_store,
                $engine,
                [
                    every_event_continues_its_tenants_chain,
                    readers_are_told_the_links_that_are_stored,
                    a_checkpoint_is_added_only_when_it_is_true_and_the_next_one,
                    news_are_told_with_what_is_signed,
                    what_is_pruned_leaves_a_log_that_proves_itself,
                    a_log_that_is_pruned_many_times_proves_itself_each_time,
                    nothing_is_pruned_that_somebody_still_needs,
                    a_cursor_comes_back_as_it_was_set,
                    a_witness_is_kept_until_it_is_replaced_or_removed,
                ]
            );
            $crate::conformance_tests!(
                quota_store,
                $engine,
                [
                    counts_add_up,
                    reservations_end_at_the_quota,
                    a_count_is_never_negative,
                    what_differs_is_counted_apart,
                    earlier_days_are_forgotten,
                ]
            );
            $crate::conformance_tests!(
                client_session_store,
                $engine,
                [
                    a_session_ends_alone,
                    notices_come_in_their_order,
                    notices_expire,
                    a_forgotten_end_ends_what_is_older,
                ]
            );
            $crate::conformance_tests!(
                saved_store,
                $engine,
                [
                    an_item_comes_back_as_it_was_saved,
                    a_name_is_taken_once_per_kind_and_tool,
                    only_the_item_that_was_seen_is_changed,
                    tenants_do_not_see_each_others_items,
                    items_are_bounded,
                ]
            );
            $crate::conformance_tests!(
                idempotency_store,
                $engine,
                [
                    an_answer_belongs_to_its_call,
                    a_call_without_an_answer_is_spent,
                    only_its_run_frees_a_key,
                    a_repeatable_call_is_taken_again,
                    expired_keys_are_free,
                ]
            );
            $crate::conformance_tests!(
                lifecycle,
                $engine,
                [
                    parts_share_their_data,
                    changes_are_announced,
                    the_living_are_left_alone,
                    it_is_measured,
                    a_closed_store_has_ended,
                ]
            );
        }
    };
}

/// Runs the tests of the [`RunStore`](toolcrib_core::store::RunStore) of an engine.
#[macro_export]
macro_rules! run_store_suite {
    ($engine:expr) => {
        $crate::conformance_tests!(
            run_store,
            $engine,
            [
                a_run_comes_back_as_it_began,
                a_run_ends_once,
                runs_are_selected_and_the_newest_come_first,
                runs_are_listed_once_and_by_pages,
                an_end_can_be_asked_for,
            ]
        );
    };
}

/// Runs the tests of the [`ApprovalStore`](toolcrib_core::approval::ApprovalStore) of an engine.
#[macro_export]
macro_rules! approval_store_suite {
    ($engine:expr) => {
        $crate::conformance_tests!(
            approval_store,
            $engine,
            [
                a_fingerprint_is_of_all_its_parts,
                an_approval_comes_back_as_it_was_asked_for,
                the_same_call_asks_once,
                only_the_last_revision_is_replaced,
                of_many_that_spend_a_grant_one_does,
                a_request_and_its_event_are_stored_together,
                approvals_are_selected,
                one_principal_cannot_ask_without_end,
                a_reader_goes_on_where_it_was,
                what_counts_is_not_pruned,
            ]
        );
    };
}

/// One `#[tokio::test]` per name, each calling the function of that name.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    ($suite:ident, $engine:expr, [$($test:ident),* $(,)?]) => {
        mod $suite {
            #[expect(unused_imports, reason = "only some expressions use these imports")]
            use super::*;
            $(
                #[tokio::test]
                async fn $test() {
                    let (engine, _guard) = $engine;
                    $crate::conformance::$suite::$test(&engine).await;
                }
            )*
        }
    };
}
