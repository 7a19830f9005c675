import java.net.InetSocketAddress;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.RetryingHMSHandler;
import org.apache.hadoop.hive.metastore.TSetIpAddressProcessor;
import org.apache.hadoop.hive.metastore.txn.TxnDbUtil;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;
import org.apache.thrift.transport.TTransportFactory;

/** A Hive metastore on loopback only, which Hive's own program cannot be told: HiveServer PORT */
public class HiveServer {
  public static void main(String[] arguments) throws Exception {
    HiveConf settings = new HiveConf();
    try {
      TxnDbUtil.prepDb(settings); // the tables of locks, which are not made by themselves
    } catch (Exception error) {
      System.err.println("The tables of locks: " + error.getMessage());
    }
    HiveMetaStore.HMSHandler plain = new HiveMetaStore.HMSHandler("tests", settings, false);
    var patient = RetryingHMSHandler.getProxy(settings, plain, true);
    var socket = new TServerSocket(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])));
    new TThreadPoolServer(
            new TThreadPoolServer.Args(socket)
                .processor(new TSetIpAddressProcessor<>(patient))
                .transportFactory(new TTransportFactory())
                .protocolFactory(new TBinaryProtocol.Factory())
                .minWorkerThreads(4)
                .maxWorkerThreads(64))
        .serve();
  }
}
