"""Each sentence of docs/memcached-differences.md, by its beginning and in its order, and the tests that show what it says."""

#: Or, behind a `=`, why there is none.
SAID = [
    # Not here in this version
    ("`extstore` as a command, `debugtime`,", "test_other_than_memcached.py::test_what_is_no_command_here"),
    ("UDP, proxy | refused at the start, see below", "test_started_otherwise.py::test_what_is_refused_at_the_start"),
    # Where it listens, who it runs as
    ("The default listener is 127.0.0.1, not every",
     "test_listeners.py::test_without_configuration_every_listener_is_on_loopback"),
    ("`-s` turns TCP off as in memcached, but with", "test_started_otherwise.py::test_a_unix_socket_and_an_address"),
    ("TLS is 1.2 or 1.3, with the suites of rustls;",
     "test_tls.py::test_both_versions_are_spoken, "
     "cli/src/cases/refused.rs::what_tls_cannot_be_is_one_line_with_a_cure"),
    ("`-d` returns when the server is ready or has",
     "test_listeners.py::test_a_daemon_leaves_and_has_a_pid_file, "
     "test_listeners.py::test_a_daemon_that_does_not_start_says_why"),
    ("An administration listener opens on",
     "test_started_otherwise.py::test_the_administration_may_be_off, "
     "test_listeners.py::test_without_configuration_every_listener_is_on_loopback"),
    ("Root without `-u` is a warning, where", "test_started_otherwise.py::test_root_is_warned"),
    ("Privileges are dropped after binding, not", "test_started_otherwise.py::test_privileges_are_dropped_after_binding"),
    ("Exit status 2 for wrong use and 3 for a", "test_cli.py::test_bad_flag, test_cli.py::test_address_in_use"),
    # Memory and items
    ("`-m` bounds index, items, segment table,", "test_memory.py::test_peak_resident_memory_is_bounded"),
    ("Peers are compared at equal resident memory.", "=how peers are measured"),
    ("There are no slab classes and so no", "test_other_than_memcached.py::test_memory_that_small_values_had_serves_large_ones"),
    ("`stats slabs` and `stats items` present sizes",
     "test_other_than_memcached.py::test_classes_are_four_per_octave, "
     "test_stats.py::test_items, "
     "test_stats.py::test_slabs"),
    ("`-I` ends at 1 GiB as memcached's, and at",
     "cli/src/cases/refused.rs::what_cannot_be_meant_is_one_line_with_a_cure, "
     "test_started_otherwise.py::test_what_is_refused_at_the_start"),
    ("Large values that are on their way in take", "test_large.py::test_uploads_that_stall_do_not_take_the_memory"),
    ("The limit counts key, header and value; a",
     "test_classic_text.py::test_row, "
     "test_large.py::test_storing_commands_answer_as_memcached_does"),
    ("Eviction follows the tenant's rank, `density`",
     "store/tests/ranks.rs::each_rank_keeps_what_it_prefers, "
     "test_other_than_memcached.py::test_what_has_no_counterpart_counts_nothing"),
    ("`direct_reclaims` counts writes that had to",
     "store/tests/cleaning/main.rs::a_writer_that_the_cleaner_keeps_up_with_never_waits"),
    ("In `stats items`, `age` is that of the oldest", "test_stats.py::test_the_age_of_a_class_is_that_of_its_oldest_item"),
    ("`evicted_time` may be too large by a tick of", "test_stats.py::test_items_tell_what_became_of_evicted_and_expired_items"),
    ("`cache_memlimit` works from 8 MiB up to `-m`, or",
     "test_other_than_memcached.py::test_the_memory_limit_goes_no_further_than_said_at_the_start, "
     "test_operate.py::test_a_tenant_sees_its_own_only"),
    ("`curr_items` and `bytes` leave out what has", "test_other_than_memcached.py::test_what_has_expired_does_not_count"),
    ("`stats cachedump` looks at the first 8,192", "test_other_than_memcached.py::test_cachedump_looks_at_a_part_of_the_index"),
    ("A line of up to 16 KiB is answered, in pieces",
     "test_differential.py::test_long_lines, "
     "test_differential.py::test_the_longest_line"),
    ("`lru_crawler enable|disable`, and `-o",
     "test_operate.py::test_a_crawler_that_begins_disabled_is_shown_as_it_is, "
     "test_other_than_memcached.py::test_what_tunes_memcacheds_machinery_changes_nothing, "
     "test_operate_differential.py::test_random_stream"),
    ("`noreply` is a word as any other behind",
     "test_other_than_memcached.py::test_words_of_operating_commands"),
    ("`slabs reassign` of two classes has no spare", "test_operate.py::test_answer"),
    ("`lru_crawler metadump all` and `hash` list in",
     "test_other_than_memcached.py::test_metadump_in_the_order_of_the_index, "
     "test_operate.py::test_metadump_of_many_is_whole_and_requests_go_on_behind_it"),
    ("`cls` is the virtual class, `size` what the", "test_other_than_memcached.py::test_metadump_in_the_order_of_the_index"),
    ("`stats sizes` shows the virtual classes that", "test_operate.py::test_sizes_conns_and_ours"),
    ("`stats sizes_enable` and `sizes_disable` change", "test_other_than_memcached.py::test_sizes_are_counted_always"),
    ("`-M` compacts before it answers out of", "store/tests/cleaning/main.rs::without_eviction_nothing_is_lost"),
    ("`touch`, `incr` and `decr` write an item anew",
     "test_other_than_memcached.py::test_where_nothing_is_dead_what_writes_anew_is_out_of_memory, "
     "test_stats.py::test_what_there_is_no_room_to_touch_is_answered_as_it_is"),
    ("A tenant with `over_share = \"refuse\"` gets", "test_admin.py::test_writes_beyond_a_share_are_refused_and_counted"),
    # Tenants
    ("`-D CHAR` makes a tenant of each new prefix", "test_tenants.py::test_delimiter_makes_tenants_of_stored_prefixes"),
    ("`stats detail dump` shows those tenants,",
     "test_operate.py::test_detail_counts_prefixes, "
     "test_stats_differential.py::test_random_settings, "
     "test_auth.py::test_a_users_stats_detail_is_nobody_elses, "
     "test_operate.py::test_sizes_conns_and_ours"),
    ("On a listener of a tenant, `lru_crawler",
     "test_operate.py::test_a_tenant_sees_its_own_only, "
     "test_other_than_memcached.py::test_a_tenants_listener"),
    ("On the default listener they spare tenants",
     "test_operate.py::test_a_tenant_sees_its_own_only, "
     "test_other_than_memcached.py::test_a_tenants_listener"),
    ("For those who watch `connevents`, a connection", "test_operate.py::test_watchers_see_pairs_of_connections_that_log_in"),
    ("On a listener of a tenant, `stats` has that",
     "test_tenants.py::test_stats_of_a_bound_connection_are_its_own, "
     "test_tenants.py::test_bound_flush_touches_its_own_items_only"),
    ("On the default listener `flush_all` spares", "test_tenants.py::test_unbound_flush_spares_port_tenants"),
    ("Connections, bytes read and written,",
     "test_tenants.py::test_stats_of_a_tenants_listener_tell_of_nobody_else, "
     "test_operate.py::test_a_tenant_that_watches_takes_no_place_of_others"),
    ("What is counted for the server only is zero", "test_other_than_memcached.py::test_a_tenants_listener"),
    ("Of the server on every listener are its", "test_other_than_memcached.py::test_a_tenants_listener"),
    ("On the default listeners connections, bytes,",
     "test_tenants.py::test_stats_of_a_tenants_listener_tell_of_nobody_else, "
     "test_other_than_memcached.py::test_a_tenants_listener"),
    # Commands
    ("`delete` with other words behind the key than", "test_other_than_memcached.py::test_other_words_behind_a_deleted_key"),
    ("Usage: delete <key> [noreply]`, as memcached", "test_other_than_memcached.py::test_other_words_behind_a_deleted_key"),
    ("`incr` and `decr` to a shorter number always",
     "test_other_than_memcached.py::test_a_shorter_number_keeps_its_length_while_it_is_sent"),
    ("`incr` and `decr` read a number from the", "test_other_than_memcached.py::test_a_number_is_read_from_the_value_alone"),
    ("An error in a batch does not take the replies", "test_differential.py::test_documented_difference"),
    ("In memcached an over-long key in a `get`", "test_differential.py::test_documented_difference"),
    ("`get` with its keys may be 1 MiB long;", "test_other_than_memcached.py::test_a_get_of_a_mebibyte"),
    ("`verbosity` answers `OK` and changes nothing.",
     "test_other_than_memcached.py::test_what_tunes_memcacheds_machinery_changes_nothing"),
    ("CAS values rise per key while it is stored,", "test_cas_numbers.py::test_cas_number_grows_with_each_change"),
    ("As in memcached, `touch`, `gat` and `gats`", "test_cas_numbers.py::test_cas_number_grows_with_each_change"),
    ("`-C` is taken with a note and has no effect:", "test_other_than_memcached.py::test_cas_may_not_be_turned_off"),
    ("`mg … h` says whether the key was hit while", "test_differential.py::test_documented_difference"),
    ("`l` and `la` are exact to a second until the",
     "test_meta.py::test_row, "
     "store/src/rank/clock.rs::ages_are_exact_while_young_and_within_three_percent_when_old"),
    ("`mg … b N` and `ma … b N` remember that the key", "test_differential.py::test_documented_difference"),
    ("`ma … T` also holds where the number becomes", "test_differential.py::test_documented_difference"),
    ("An `mg` that creates is counted as a miss,", "test_other_than_memcached.py::test_who_creates_by_asking_has_missed"),
    ("`watch` knows `fetchers mutations evictions",
     "test_operate.py::test_watch, "
     "test_operate_differential.py::test_random_watches"),
    ("Number and `cfd` of a connection count", "test_other_than_memcached.py::test_numbers_of_connections_are_no_descriptors"),
    ("Who does not read loses lines and is told",
     "test_operate.py::test_a_watcher_who_does_not_read_holds_nobody_up, "
     "test_operate_differential.py::test_random_watches, "
     "server/src/watch.rs::a_full_buffer_drops_and_says_so, "
     "server/src/watch.rs::a_tenant_takes_no_more_than_its_places_and_none_of_the_others, "
     "test_operate.py::test_a_tenant_that_watches_takes_no_place_of_others"),
    ("A counter that `ma` makes is told of with its", "test_operate.py::test_watch_tells_of_what_is_refused_and_made"),
    ("Watchers of `fetchers` hear of what asks for", "test_other_than_memcached.py::test_what_watchers_are_not_told"),
    ("Behind requests that came with them `watch`", "test_other_than_memcached.py::test_what_comes_behind_other_requests"),
    ("`shutdown` needs `-A` and drains, `graceful`", "test_operate.py::test_answer, test_operate.py::test_shutdown"),
    ("`stats reset` on a tenant's own listener sets",
     "test_tenants.py::test_reset_of_a_bound_connection_is_its_own, "
     "test_other_than_memcached.py::test_a_reset_leaves_what_is_not_memcacheds"),
    # Binary protocol
    ("A packet with an opcode that means nothing is", "test_binary.py::test_difference_skipping_an_unknown_opcode"),
    ("Answers that wait are sent before a", "test_binary.py::test_wrong_packet_ends_the_connection"),
    ("A value, a message of SASL and a packet of a",
     "test_other_than_memcached.py::test_a_value_in_packets_is_refused_before_it_comes, "
     "test_auth.py::test_binary_strangers"),
    ("A counter that finds no memory is told with",
     "test_other_than_memcached.py::test_where_nothing_is_dead_what_writes_anew_is_out_of_memory"),
    ("`stat` knows `conns`, and the statistics that", "test_other_than_memcached.py::test_packets_ask_for_what_lines_ask_for"),
    # Passwords
    ("One file of users (`-Y`) serves both",
     "test_auth.py::test_right_passwords, "
     "test_started_otherwise.py::test_what_is_refused_at_the_start"),
    ("Cyrus SASL, its databases and its other",
     "test_started_otherwise.py::test_another_file_of_passwords_is_not_read, "
     "test_auth.py::test_sasl_by_steps"),
    ("A user's connections belong to a tenant: one", "test_auth.py::test_users_are_tenants"),
    ("`shared_users = [\"*\"]` lets all users share", "test_auth.py::test_shared_users"),
    ("In the text protocol a password is all behind", "test_auth.py::test_right_passwords"),
    ("A password in the file may be an Argon2 hash.", "test_auth.py::test_right_passwords"),
    ("The file may hold more than eight users.", "test_started_otherwise.py::test_more_than_eight_users_in_both_protocols"),
    ("A user who is there twice is an error.", "test_started_otherwise.py::test_a_user_twice_is_an_error"),
    ("Strangers are told the version in the text", "test_auth.py::test_text_strangers_get_the_version_and_nothing_else"),
    ("Each of their lines has its answer; memcached", "test_auth.py::test_each_line_of_a_stranger_has_its_answer"),
    ("Five attempts that fail end a connection; of",
     "test_auth.py::test_attempts_are_limited, "
     "test_guesses.py::test_who_is_wrong_too_often_waits_and_others_do_not"),
    ("A message that shows a password has at most", "test_started_otherwise.py::test_a_message_of_a_password_has_its_length"),
    ("Listing mechanisms does not take back what", "test_started_otherwise.py::test_listing_mechanisms_takes_nothing_back"),
    # Time
    ("The clock counts whole seconds, an item is",
     "test_classic_text.py::test_row, "
     "test_classic_text.py::test_relative_exptimes_pass, "
     "test_classic_text.py::test_absolute_exptime_passes"),
    ("Relative times follow the monotonic clock.", "=no test steps a clock"),
    ("A date is converted when it arrives, by the", "test_classic_text.py::test_absolute_exptime_passes"),
    ("When the wall clock steps, dates given from", "=no test steps a clock"),
    ("`flush_all` divides exactly what was stored",
     "store/src/shuttle_tests.rs::a_flush_divides_before_from_after, "
     "test_other_than_memcached.py::test_requests_behind_a_flush_meet_nothing_older"),
    ("A `flush_all` with a delay takes back none", "test_other_than_memcached.py::test_a_delayed_flush_takes_nothing_back"),
    ("In memcached older items rise again.", "test_other_than_memcached.py::test_a_delayed_flush_takes_nothing_back"),
    # Flags
    ("All flags and `-o` options of 1.6.45 are", "cli/src/cases.rs::every_flag_of_memcached_is_known"),
    ("Those that are neither here nor below do what", "cli/src/cases.rs::used_flags_reach_the_configuration"),
    ("`-U`, unless 0 | refused: use TCP", "test_started_otherwise.py::test_what_is_refused_at_the_start"),
    ("`-R` | 64 unless set (memcached: 20): as many", "test_other_than_memcached.py::test_our_defaults_and_echoes"),
    ("`-S`, `-Y` | see Passwords; `-S` needs `-Y`", "test_started_otherwise.py::test_what_is_refused_at_the_start"),
    ("`-e` | the items are written there by a clean", "test_memory_file.py::test_a_memory_file_keeps_dram_over_a_restart"),
    ("`-P` | a file that holds something else than", "test_listeners.py::test_the_pid_file_of_a_server_that_runs_stays"),
    ("`-o proxy_config` | refused: run a proxy in", "test_started_otherwise.py::test_what_is_refused_at_the_start"),
    ("`-p 0`, `-p -1` | any free port; no TCP", "test_started_otherwise.py::test_ports_are_any_free_one_or_none"),
    ("`-l` with `proto[proxy]` | refused", "test_started_otherwise.py::test_what_is_refused_at_the_start"),
    ("`-L` | the log asks for huge pages with or", "test_started_otherwise.py::test_large_pages_are_missed_where_they_are_off"),
    ("`-f`, `-n` | a note: no slab classes", "test_started_otherwise.py::test_notes_on_what_has_no_meaning"),
    ("`-N` | a note: the acceptor spreads", "test_started_otherwise.py::test_notes_on_what_has_no_meaning"),
    ("`-o` | `idle_timeout`, `lru_crawler` and",
     "test_started_otherwise.py::test_notes_on_what_has_no_meaning, "
     "cli/src/cases.rs::every_flag_of_memcached_is_known"),
    ("Under the name `memcached`, by a link for", "test_started_otherwise.py::test_under_memcacheds_name"),
    ("What was given and has no meaning is echoed",
     "test_other_than_memcached.py::test_our_defaults_and_echoes, "
     "cli/src/cases.rs::given_settings_are_echoed_under_memcached_names"),
    ("Beside memcached's short and long flags every", "test_started_otherwise.py::test_every_setting_has_a_key_and_a_variable"),
]
