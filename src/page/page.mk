# The pages' templates, styles and scripts become strings in the program (page.h).
PAGE_PARTS = $(wildcard src/page/*.html src/page/*.css src/page/*.js) src/page/chart.js
# Chart.js comes from Debian's package.
CHART_JS   = /usr/share/javascript/chart.js/chart.min.js

.SECONDARY: $(PAGE_PARTS:%=$(B)/%.c)
define STRING_OF_FILE
	@mkdir -p $(@D)
	@{ echo 'extern const char gs_page_$(subst .,_,$(basename $(@F)))[];'; echo 'const char gs_page_$(subst .,_,$(basename $(@F)))[] = {'; \
	   od -An -v -tu1 $< | sed 's/ *\([0-9][0-9]*\)/\1,/g'; echo '0};'; } > $@
endef
$(B)/src/page/%.c: src/page/% src/page/page.mk
	$(STRING_OF_FILE)
$(B)/src/page/chart.js.c: $(CHART_JS) src/page/page.mk
	$(STRING_OF_FILE)
$(CHART_JS): | packages
	@test -f $@ || { echo "gradsum: there is no $@; make CHART_JS=FILE takes another chart.min.js of Chart.js 3.9" >&2; exit 1; }

# A byte above 127 in the initialiser of a signed char causes a warning, which is meaningless here.
$(B)/src/page/%.o: $(B)/src/page/%.c | packages
	@echo "PART src/page/$*"
	@$(CC) -std=c11 -funsigned-char -fPIC -fvisibility=hidden -g -c -o $@ $<
