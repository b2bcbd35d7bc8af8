"""The effect of arguments of Megatron-LM that hetopt's readers do not look up.

Sources: ``megatron/training/arguments.py`` of Megatron-LM with megatron-core 0.16,
``megatron/arguments.py`` of Megatron-DeepSpeed (207b2d5) and of older Megatron-LM,
FlagScale's training settings (da4935e). Other arguments are reported as unknown.
"""

from __future__ import annotations

from hetopt.export.understood import table

#: Data, tokenizer, learning rate, initial weights, loss scale, checkpoints, logging,
#: profiling, restarts; arguments that are ignored; those of experts, MLA and other
#: programs, which have no effect without them.
_HARMLESS = """
adam_beta1 adam_beta2 adam_eps adlr_autoresume adlr_autoresume_interval
allow_ambiguous_pad_tokens app_tag_run_name app_tag_run_version
apply_query_key_layer_scaling async_save attention_softmax_in_fp32
auto_detect_ckpt_format calc_ft_timeouts calculate_per_token_loss check_for_large_grads
check_for_spiky_loss check_weight_hash_across_dp_replicas_interval
ckpt_assume_constant_structure ckpt_convert_format ckpt_convert_save
ckpt_convert_update_legacy_dist_opt_format ckpt_format ckpt_fully_parallel_load
ckpt_fully_parallel_save ckpt_step clip_grad config_logger_dir data_args_path
data_cache_path data_impl data_parallel_random_init data_path dataloader_type
ddp_average_in_collective decoupled_lr decoupled_min_lr disable_gloo_process_groups
disable_straggler_on_startup dist_ckpt_format dist_ckpt_optim_fully_reshardable
dist_ckpt_save_pre_mcore_014 dist_ckpt_strictness
distrib_optim_fully_reshardable_mem_efficient distributed_backend
distributed_timeout_minutes distributed_timeout_seconds_after_init
dump_param_to_param_group_map embedding_init_method_std enable_experimental
enable_ft_package disable_msc encoder_seq_length end_weight_decay
eod_mask_loss error_injection_rate error_injection_type eval_interval eval_iters
exit_duration_in_mins exit_interval exit_on_missing_checkpoint exit_signal_handler
finetune fp8_amax_compute_algo fp8_amax_history_len fp8_interval fp8_margin
full_validation hysteresis init_method_std init_method_xavier_uniform
init_model_with_meta_device initial_loss_scale inprocess_active_world_size
inprocess_barrier_timeout inprocess_completion_timeout inprocess_empty_cuda_cache
inprocess_granularity inprocess_hard_timeout inprocess_heartbeat_interval
inprocess_heartbeat_timeout inprocess_last_call_wait inprocess_max_iterations
inprocess_monitor_process_interval inprocess_monitor_thread_interval
inprocess_progress_watchdog_interval inprocess_restart inprocess_soft_timeout
inprocess_termination_grace_time iterations_to_skip legacy_tokenizer lazy_mpu_init load
load_main_params_from_ckpt local_rank log_batch_size_to_tensorboard log_energy
log_interval log_learning_rate_to_tensorboard log_loss_scale_to_tensorboard
log_memory_to_tensorboard log_num_zeros_in_grad log_params_norm log_progress
log_straggler log_throughput log_timers_to_tensorboard
log_validation_ppl_to_tensorboard log_world_size_to_tensorboard logging_level loss_scale
loss_scale_window lr lr_decay_iters lr_decay_samples lr_decay_style lr_decay_tokens
lr_warmup_fraction lr_warmup_init lr_warmup_iters lr_warmup_samples lr_warmup_steps
lr_warmup_tokens lr_wsd_decay_iters lr_wsd_decay_samples lr_wsd_decay_style manual_gc
manual_gc_interval memory_snapshot_path merge_file mid_level_dataset_surplus min_lr
min_loss_scale mmap_warmup mock_data multiple_validation_sets
nccl_communicator_config_path no_async_tensor_model_parallel_allreduce
no_barrier_with_level_1_timing no_check_for_nan_in_loss_and_grad
no_ckpt_fully_parallel_save no_create_attention_mask_in_dataloader no_data_sharding
no_initialization no_load_lr_state no_load_optim no_load_rng
no_log_learning_rate_to_tensorboard no_log_loss_scale_to_tensorboard no_manual_gc_eval
no_mmap_bin_files no_one_logger no_query_key_layer_scaling no_save_optim no_save_rng
no_strict_fsdp_dtensor_load no_use_tokenizer_model_from_checkpoint_args
non_persistent_ckpt_type non_persistent_global_ckpt_dir non_persistent_local_ckpt_algo
non_persistent_local_ckpt_dir non_persistent_save_interval num_dataset_builder_threads
num_workers object_storage_cache_path one_logger_async one_logger_project
one_logger_run_name onnx_safe override_opt_param_scheduler per_split_data_args_path
persistent_save_interval pretrained_checkpoint profile profile_ranks profile_step_end
profile_step_start profile_steps recompute_num_layers record_memory_history replication
replication_factor replication_jump rerun_mode reset_iteration
result_rejected_tracker_filename run_workload_inspector_server sample_rate save
save_interval save_retain_interval seed sgd_momentum short_seq_prob split
start_weight_decay straggler_ctrlr_port straggler_minmax_count tensorboard_dir
tensorboard_log_interval tensorboard_queue_size test_data_path test_mode
tiktoken_num_special_tokens tiktoken_pattern tiktoken_special_tokens timing_log_option
tokenizer_metadata tokenizer_model tokenizer_type
train_data_exact_num_epochs train_data_path train_doc_idx_path train_idx_path
train_iters train_sample_idx_path train_samples train_shuffle_idx_path
train_sync_interval train_tokens trust_remote_code use_checkpoint_opt_param_scheduler
use_cpu_initialization use_dist_ckpt use_gloo_process_groups use_mcore_models
use_one_sent_docs use_persistent_ckpt_worker use_pytorch_profiler valid_data_path
vocab_extra_ids vocab_file wandb_entity wandb_exp_name wandb_project wandb_save_dir
weight_decay weight_decay_incr_style
moe_apply_probs_on_input moe_aux_loss_coeff moe_deepep_num_sms moe_enable_deepep
moe_eval_capacity_factor moe_expert_capacity_factor moe_extended_tp
moe_ffn_hidden_size moe_flex_dispatcher_backend moe_grouped_gemm moe_input_jitter_eps
moe_layer_freq
moe_layer_recompute moe_loss_coeff moe_min_capacity moe_pad_expert_input_to_capacity
moe_per_layer_logging moe_permute_fusion moe_router_bias_update_rate moe_router_dtype
moe_router_enable_expert_bias moe_router_force_load_balancing moe_router_fusion
moe_router_group_topk moe_router_load_balancing_type moe_router_num_groups
moe_router_padding_for_fp8 moe_router_pre_softmax moe_router_score_function
moe_router_topk moe_router_topk_scaling_factor moe_shared_expert_intermediate_size
moe_shared_expert_overlap moe_token_drop_policy moe_token_dispatcher_type
moe_train_capacity_factor moe_use_legacy_grouped_gemm moe_z_loss_coeff
create_moe_param_group disable_moe_token_dropping disable_moe_top2_2nd_expert_sampling
kv_lora_rank mscale mscale_all_dim mtp_loss_scaling_factor q_lora_rank qk_head_dim
qk_pos_emb_head_dim rotary_scaling_factor v_head_dim rope_scaling_factor
bert_no_binary_head mask_prob
"""

_UNPRICED = {
    "hetopt prices the gather of weights after the optimizer's step, not overlapped": (
        "overlap_param_gather overlap_param_gather_with_optimizer_step"
    ),
    "hetopt prices weights gathered in 16 bits": (
        "fp8_param_gather fp8_param fp4_param_gather keep_fp8_transpose_cache "
        "reuse_grad_buf_for_mxfp8_param_ag"
    ),
    "hetopt prices one kind of FP8, in every layer": (
        "fp8_recipe=delayed|tensorwise|mxfp8 fp8_wgrad "
        "no_fp8_wgrad fp4_recipe=nvfp4 "
        "fp8_dot_product_attention fp8_multi_head_attention "
        "first_last_layers_bf16 num_layers_at_start_in_bf16 "
        "num_layers_at_end_in_bf16 tp_only_amax_red inference_rng_tracker "
        "fp8_quantizer_factory use_kitchen kitchen_config_file kitchen_recipe_number"
    ),
    "hetopt prices one way to overlap tensor parallelism's collectives": (
        "tp_comm_overlap_cfg tp_comm_overlap_rs_dgrad "
        "tp_comm_bootstrap_backend=nccl disable_tp_comm_bulk_dgrad "
        "disable_tp_comm_bulk_wgrad disable_tp_comm_overlap_ag "
        "disable_tp_comm_overlap_rs disable_tp_comm_split_ag disable_tp_comm_split_rs"
    ),
    "hetopt prices transfers between stages as Megatron-LM does by default": (
        "no_overlap_p2p_communication overlap_p2p_communication "
        "overlap_p2p_communication_warmup_flush use_ring_exchange_p2p "
        "no_scatter_gather_tensors_in_pipeline no_batch_p2p_communication "
        "pipeline_model_parallel_comm_backend=nccl deallocate_pipeline_outputs"
    ),
    "hetopt prices the reduction of gradients in a runtime's usual buckets": (
        "ddp_bucket_size ddp_num_buckets ddp_pad_buckets_for_high_nccl_busbw "
        "ddp_reduce_scatter_with_fp32_accumulation no_align_grad_reduce "
        "no_align_param_gather align_param_gather no_gradient_reduce_div_fusion "
        "DDP_impl=local no_contiguous_buffers_in_local_ddp use_nccl_ub use_sharp "
        "sharp_enabled_group disable_symmetric_registration "
        "high_priority_stream_groups num_distributed_optimizer_instances=1 "
        "zero_allgather_bucket_size zero_contigious_gradients zero_reduce_bucket_size "
        "zero_reduce_scatter"
    ),
    "hetopt prices kernels as Megatron-LM fuses them by default": (
        "no_masked_softmax_fusion no_bias_swiglu_fusion no_bias_dropout_fusion "
        "no_bias_gelu_fusion no_rope_fusion no_persist_layer_norm "
        "no_gradient_accumulation_fusion use_fused_weighted_squared_relu openai_gelu "
        "memory_efficient_layer_norm use_te_activation_func use_fused_rmsnorm "
        "fused_single_qkv_rope use_rotary_position_embeddings_fusion "
        "no_fused_rmsnorm use_tutel cross_entropy_fusion_impl=native "
        "disable_bf16_reduced_precision_matmul no_clone_scatter_output_in_embedding "
        "activation_func_fp8_input_store batch_invariant_mode"
    ),
    "whether whole iterations are CUDA graphs is a part of training.software": (
        "enable_cuda_graph cuda_graph_impl cuda_graph_scope cuda_graph_warmup_steps "
        "external_cuda_graph cuda_graph_use_single_mempool te_rng_tracker "
        "cuda_graph_retain_backward_graph"
    ),
    "hetopt prices optimizer, weights and activations in device memory": (
        "optimizer_cpu_offload optimizer_offload_fraction cpu_optimizer ds_fused_adam "
        "cpu_offloading_num_layers=0 torch_adam "
        "checkpoint_in_cpu remote_device use_pin_memory "
        "fine_grained_activation_offloading offload_modules min_offloaded_tensor_size"
    ),
    "hetopt prices an offloaded optimizer's update as fused, from pinned memory, "
    "after its gradients have come and before its weights go back": (
        "use_torch_optimizer_for_cpu_offload overlap_cpu_optimizer_d2h_h2d "
        "no_pin_cpu_grads no_pin_cpu_params"
    ),
    "hetopt prices activations kept whole on each tensor rank": (
        "distribute_saved_activations distribute_checkpointed_activations "
        "partition_activations contigious_checkpointing scattered_embeddings "
        "split_transformers memory_centric_tiled_linear tile_factor=1 "
        "synchronize_each_layer profile_backward"
    ),
    "hetopt prices Adam's states in 32 bits": (
        "use_precision_aware_optimizer main_grads_dtype=fp32 main_params_dtype=fp32 "
        "exp_avg_dtype=fp32 exp_avg_sq_dtype=fp32"
    ),
    "hetopt prices Adam or SGD": (
        "muon_momentum muon_no_split_qkv muon_use_nesterov muon_scale_mode "
        "muon_fp32_matmul_prec muon_num_ns_steps muon_tp_mode muon_extra_scale_factor"
    ),
    "hetopt prices residuals in the training's precision": "fp32_residual_connection",
    "hetopt prices the loss in 32 bits": "fp16_lm_cross_entropy",
    "hetopt prices every iteration with the whole global batch": (
        "rampup_batch_size decrease_batch_size_if_needed"
    ),
    "hetopt prices whole sequences, without packing and dropping tokens": (
        "reset_attention_mask reset_position_ids random_ltd sft "
        "curriculum_learning_type data_efficiency_curriculum_learning "
        "variable_seq_lengths use_packed_sequence"
    ),
    "hetopt prices ring attention (cp_comm_type p2p)": (
        "hierarchical_context_parallel_sizes hybrid_context_parallel"
    ),
    "hetopt's ranks are laid out tp-cp-dp-pp": "use_tp_pp_dp_mapping",
    "hetopt prices the weight gradient of the head with its backward pass": (
        "defer_embedding_wgrad_compute wgrad_deferral_limit delay_wgrad_compute"
    ),
    "hetopt prices nothing but the training": (
        "deterministic_mode timing_log_level=0|1 empty_unused_memory_level=0 "
        "use_mp_args_from_checkpoint_args log_max_attention_logit"
    ),
    "the model is the checkpoint's, which hetopt cannot read": "use_checkpoint_args",
    "hetopt prices the problem's vocabulary, the runtime pads a tokenizer's": (
        "make_vocab_size_divisible_by vocab_size"
    ),
    "hetopt's models have no such layers": (
        "expert_model_parallel_size=1 expert_tensor_parallel_size "
        "moe_expert_parallel_size=1 qk_l2_norm no_rope_freq attention_output_gate "
        "softmax_type=vanilla glu_linear_offset=0|0.0 activation_func_clamp_value "
        "apply_residual_connection_post_layernorm use_engram linear_attention_freq "
        "experimental_attention_variant qk_clip heterogeneous_layers_config_path "
        "heterogeneous_layers_config_encoded_json spec rope_type=rope mrope_section "
        "relative_attention_num_buckets relative_attention_max_distance topk=1 "
        "enable_expert_tensor_parallelism enable_hyper_connections "
        "use_sinkhorn_attention embed_layernorm mlp_type=standard"
    ),
    "has no effect on what the script says": (
        "no_position_embedding deepspeed_activation_checkpointing "
        "recompute_method checkpoint_num_layers activations_checkpoint_num_layers "
        "rotary_base rotary_percent rotary_interleaved use_rope_scaling no_fp16 "
        "rotary_seq_len_interpolation_factor num_query_groups cp_comm_type=p2p "
        "recompute_modules zero_stage window_attn_skip_freq accumulate_allreduce_grads_"
        "in_fp32 microbatch_group_size_per_virtual_pipeline_stage"
    ),
}

MEGATRON = table(_HARMLESS, _UNPRICED)

DEEPSPEED = table(
    """
    aml_data_download_path checkpoint_data_parallel checkpoint_io_buffer_size
    checkpoint_writer_decoupled aio_intra_op_parallelism deepspeed_mpi deepscale
    deepscale_config inference kd_alpha_ce kd_beta_ce kd_temp load_tag load_teacher
    repeated_dataloader return_data_index train_desc_path universal_checkpoint
    use_dataset_only
    """,
    {
        "hetopt prices Adam as the runtime fuses it": "use_flash_attn_builder",
        "hetopt prices whole sequences, without packing and dropping tokens": (
            "curriculum_learning ds_sequence_parallel_fpdt "
            "ds_sequence_parallel_fpdt_chunk_size ds_sequence_parallel_fpdt_offloading "
            "force_ds_sequence_parallel"
        ),
    },
    MEGATRON,
)

#: The arguments that FlagScale's training settings have in addition.
FLAGSCALE = table(
    """
    norm_init_weight rotary_interleaved_patch skip_iters_range skip_samples_range
    special_tokens_file tokenizer_path wandb_log_model wandb_mode
    """,
    {
        "hetopt prices transfers between clusters as the problem's links are": (
            "hetero_use_cpu_communication"
        )
    },
    MEGATRON,
)
