# The script's functions under names of their own. All code is in replicate.R.
read_study <- replearn$study
read_model <- replearn$model
replicate_study <- replearn$replicate

update_model <- replearn$update
write_model <- function(model, path) replearn$save(model, path)

as.data.frame.replearn_model <- replearn$internal$frame_model
as.data.frame.replearn_replication <- replearn$internal$frame_replication
coef.replearn_model <- replearn$internal$coef_model
coef.replearn_replication <- replearn$internal$coef_replication
confint.replearn_replication <- replearn$internal$confint_replication
plot.replearn_model <- replearn$internal$plot_model
plot.replearn_replication <- replearn$internal$plot_replication
predict.replearn_model <- replearn$internal$predict_model
predict.replearn_replication <- replearn$internal$predict_replication
print.replearn_model <- replearn$internal$print_model
print.replearn_replication <- replearn$internal$print_replication
print.replearn_study <- replearn$internal$print_study
print.replearn_summary <- replearn$internal$print_summary
summary.replearn_model <- function(object, ...) object
summary.replearn_replication <- replearn$internal$summary_replication
update.replearn_model <- replearn$internal$update_model
vcov.replearn_model <- replearn$internal$vcov_model
vcov.replearn_replication <- replearn$internal$vcov_replication
