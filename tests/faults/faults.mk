# gradsum-faults: planted mistakes stand before the functions that they replace, by the linker, in this program alone.
FAULT_WRAPS = gs_worker_create gs_device_open gs_warm_up gs_loader_create gs_epoch_order gs_augment_gather \
              gs_worker_next gs_stage_run_after gs_model_backward gs_batch_norm_begin gs_sync_sum gs_optimizer_update \
              gs_optimizer_clip gs_norm gs_lr_of_step gs_state_restore gs_call_run
OBJ_FAULTS  = $(patsubst %.c,$(B)/%.o,$(wildcard tests/faults/*.c))

$(B)/gradsum-faults: $(OBJ_FAULTS) $(B)/libgradsum.a
	@echo "LINK $@"
	@$(CC) $(FLAGS) -o $@ $(FAULT_WRAPS:%=-Wl,--wrap=%) $^ $(PKG_LIBS) $(LDFLAGS)

-include $(OBJ_FAULTS:.o=.d)

# All planted mistakes are caught and named, and nothing is said of right runs; `make test` does every 7th. Then runs of
# which a rank is killed, hangs, is slow or cut off, or sends wrong bytes: make test-faults DRAWS=1000.
test-faults: $(B)/gradsum-faults $(B)/gradsum
	$(B)/gradsum-faults
	tests/failures.sh $(B)/gradsum
