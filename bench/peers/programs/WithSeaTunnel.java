import com.hazelcast.client.config.ClientConfig;
import com.hazelcast.instance.impl.HazelcastInstanceImpl;
import org.apache.seatunnel.common.config.Common;
import org.apache.seatunnel.common.config.DeployMode;
import org.apache.seatunnel.engine.client.SeaTunnelClient;
import org.apache.seatunnel.engine.common.config.ConfigProvider;
import org.apache.seatunnel.engine.common.config.JobConfig;
import org.apache.seatunnel.engine.common.config.SeaTunnelConfig;
import org.apache.seatunnel.engine.core.job.JobResult;
import org.apache.seatunnel.engine.core.job.JobStatus;
import org.apache.seatunnel.engine.server.SeaTunnelServerStarter;

/** Run by the bench: WithSeaTunnel.java HOME CONFIGURATION...; its own starter is not among the jars. */
public class WithSeaTunnel {
    public static void main(String[] arguments) throws Exception {
        Common.setSeaTunnelHome(arguments[0]);
        Common.setDeployMode(DeployMode.CLIENT);
        SeaTunnelConfig settings = ConfigProvider.locateAndGetSeaTunnelConfig();
        String cluster = "bench-" + ProcessHandle.current().pid();
        settings.getHazelcastConfig().setClusterName(cluster);
        settings.getHazelcastConfig().getNetworkConfig().setPublicAddress("127.0.0.1");
        HazelcastInstanceImpl engine = SeaTunnelServerStarter.createHazelcastInstance(settings);
        ClientConfig client = ConfigProvider.locateAndGetClientConfig();
        client.setClusterName(cluster);
        client.getNetworkConfig().setAddresses(java.util.List.of(
            "127.0.0.1:" + engine.getCluster().getLocalMember().getAddress().getPort()));
        int code = 0;
        try (SeaTunnelClient submitting = new SeaTunnelClient(client)) {
            for (int number = 1; number < arguments.length && code == 0; number++) {
                JobConfig named = new JobConfig();
                named.setName("bench-" + number);
                JobResult result = submitting.createExecutionContext(arguments[number], named, settings)
                    .execute().waitForJobCompleteV2();
                if (result.getStatus() != JobStatus.FINISHED) {
                    System.err.println(result);
                    code = 1;
                }
            }
        }
        engine.shutdown();
        System.exit(code);
    }
}
