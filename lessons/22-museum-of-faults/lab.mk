# The museum of this lesson's README: make build/lessons/22/museum. Its mistakes are planted by the linker, as in
# gradsum-faults (tests/faults/faults.mk, which uses this list too); a sealed handout has them as objects.
FAULT_WRAPS = gs_worker_create gs_device_open gs_begin_training gs_loader_create gs_epoch_order gs_augment_gather \
              gs_worker_next gs_instructions_create gs_model_backward gs_batch_norm_begin gs_sync_sum \
              gs_optimizer_update gs_optimizer_clip_held gs_norm gs_lr_of_step gs_state_restore gs_call_run
MUSEUM      = $(B)/lessons/22/museum.o \
              $(addprefix $(B)/tests/faults/,settings.o wrap_data.o wrap_layers.o wrap_kinks.o wrap_sum.o wrap_update.o)

$(B)/lessons/22/museum: $(MUSEUM) $(B)/libgradsum.a
	@echo "LINK $@"
	@$(CC) $(FLAGS) -o $@ $(FAULT_WRAPS:%=-Wl,--wrap=%) $^ $(PKG_LIBS) $(LDFLAGS)
